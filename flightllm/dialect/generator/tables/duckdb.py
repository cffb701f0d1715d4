"""Write the functions of DuckDB that the server has in another form."""

import re
from collections.abc import Sequence
from typing import Any, Final

from flightllm.common.names import COLUMNS_OF, DUCKDB_JSON_OF, LAMBDA_PREFIX
from flightllm.dialect.generator.calls import Call, Rule, Table, form, named, no
from flightllm.dialect.generator.duckdb_values import as_joined, json_of
from flightllm.dialect.generator.forms import substring
from flightllm.dialect.generator.tables.shared import TIMESTAMP_FROM_PARTS
from flightllm.functions.duckdb_json import DUCKDB_JSON, DUCKDB_KEYS
from flightllm.functions.duckdb_texts import SIMPLE_LOWER, SIMPLE_UPPER
from flightllm.functions.java_texts import SHA_1, URL_ENCODED
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT
from flightllm.functions.text_parts import SPLIT
from flightllm.functions.unicode_texts import NORMAL_FORM
from flightllm.sql.literals import text_literal

_KNOWN: Final = "CAST(coalesce(array_length(array_compact({0})), 0) AS BIGINT)"
"""The number of items that are not NULL."""
_LENGTHS: Final = {
    "CENTURIE": "1200 month",
    "DECADE": "120 month",
    "YEAR": "12 month",
    "QUARTER": "3 month",
    "MONTH": "1 month",
    "WEEK": "7 day",
    "DAY": "1 day",
    "HOUR": "1 hour",
    "MINUTE": "1 minute",
}
"""The interval of each unit of a function such as `to_days`."""
_RANDOM_ACCESS: Final = "write it over the rows of unnest(list) in a subquery"


def _of_list(text: str) -> Rule:
    """Return a rule for a text that is NULL only for the list NULL."""
    return form(f"(CASE WHEN {{0}} IS NOT NULL THEN {text} END)")


def _of_known(text: str) -> Rule:
    """Return a rule for a text that is NULL for a list without values."""
    return form(f"(CASE WHEN {_KNOWN} > 0 THEN {text} END)")


def _cosine(text: str) -> Rule:
    """Return a rule for a text of a cosine, which is NaN for a vector of zeros."""
    known = f"coalesce({text}, CAST('NaN' AS DOUBLE))"
    return form(f"(CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {known} END)")


def _of_vectors() -> Table:
    """Return the rules of the functions that compare two vectors; each has a name for lists and one for arrays."""
    rules = {
        "COSINE_SIMILARITY": _cosine("1 - cosine_distance({0}, {1})"),
        "COSINE_DISTANCE": _cosine("cosine_distance({0}, {1})"),
        "DISTANCE": form("array_distance({0}, {1})"),
        "INNER_PRODUCT": form("inner_product({0}, {1})"),
        "DOT_PRODUCT": form("inner_product({0}, {1})"),
        "NEGATIVE_INNER_PRODUCT": form("(-inner_product({0}, {1}))"),
        "NEGATIVE_DOT_PRODUCT": form("(-inner_product({0}, {1}))"),
    }
    return {f"{kind}_{name}": rule for kind in ("LIST", "ARRAY") for name, rule in rules.items()}


def _within(call: Call) -> str:
    """Write QUANTILE(value, fraction) as the aggregate over an order."""
    if len(call.args) != 2:
        call.refuse("write quantile_disc(x, 0.5)")
    return f"percentile_disc({call.sql(1)}) WITHIN GROUP (ORDER BY {call.sql(0)})"


def _joined(name: str) -> Rule:
    """Return a rule that joins the texts of all values; `concat` joins lists, too."""

    def rule(call: Call) -> str:
        from sqlglot import exp

        lists = name == "concat" and any(isinstance(one, exp.Array) for one in call.args)
        return f"{'array_concat' if lists else name}({', '.join(as_joined(call.generator, one) for one in call.args)})"

    return rule


def _of_json(text: str, other: str) -> Rule:
    """Return a rule for a count of a JSON text; `other` is the value for JSON without parts of this kind."""
    known = f"coalesce({text}, CASE WHEN json_valid({{0}}) THEN {other} END)"
    return form(known, known.replace("{0}", "json_extract({0}, {1})"))


def _read_json(name: str) -> Rule:
    """Return a rule for the value at a path, which DuckDB writes without spaces.

    Raises:
        UnsupportedError: the call has several paths.
    """

    def rule(call: Call) -> str:
        if len(call.args) != 2 or call.generator.sql(call.args[1]).startswith("["):
            call.refuse("it takes one path: write one call for each")
        value = json_of(call.generator, call.args[0])
        return str(call.generator.func(name, value, call.args[1]))

    return rule


def _json(value: str) -> str:
    return f"{DUCKDB_JSON_OF}({value})"


def _json_at(call: Call, place: int) -> str:
    """Return the JSON of an argument; a text that is cast to JSON is JSON already."""
    from sqlglot import exp

    value = call.args[place]
    cast = isinstance(value, exp.Cast) and value.to.this == exp.DType.JSON
    return f"{DUCKDB_JSON}({call.written(value.this)})" if cast else _json(call.sql(place))


def _one_json(call: Call) -> str:
    """Write the JSON of one value."""
    if len(call.args) != 1:
        call.refuse("write to_json(value)")
    return _json_at(call, 0)


def _object(call: Call) -> str:
    """Write an object of names and values in turn."""
    if len(call.args) % 2:
        call.refuse("it takes names and values in turn: write json_object('name', value)")
    names = [f"CAST({call.sql(place)} AS VARCHAR)" for place in range(0, len(call.args), 2)]
    values = [_json_at(call, place) for place in range(1, len(call.args), 2)]
    return f"{JSON_OBJECT}({_texts(names)}, {_texts(values)})"


def _list(call: Call) -> str:
    """Write a JSON list of values."""
    return f"{JSON_LIST}({_texts([_json_at(call, place) for place in range(len(call.args))])})"


def _texts(items: Sequence[str]) -> str:
    return f"make_array({', '.join(items)})" if items else "arrow_cast(make_array(), 'List(Utf8)')"


def _milliseconds(call: Call) -> str:
    """Write EPOCH_MS: a number is the time of a timestamp, and a time has a number."""
    if len(call.args) != 1:
        call.refuse("write epoch_ms(time)")
    if call.number(0) is not None:
        return f"arrow_cast(to_timestamp_millis({call.sql(0)}), 'Timestamp(Microsecond, None)')"
    return f"CAST(round(CAST({_MICROSECONDS.replace('{0}', call.sql(0))} AS DOUBLE) / 1000) AS BIGINT)"


def _columns(call: Call) -> str:
    """Write COLUMNS with its way to choose columns: a pass knows the columns."""
    from sqlglot import exp

    value = call.args[0] if len(call.args) == 1 else None
    items = value.expressions if isinstance(value, exp.Array) else []
    if isinstance(value, exp.Star) and not value.args.get("replace") and not value.args.get("rename"):
        asked = ["all", *(one.name for one in value.args.get("except_") or [])]
    elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
        asked = ["table", value.table]
    elif call.text(0) is not None:
        asked = ["pattern", str(call.text(0))]
    elif items and all(
        isinstance(one, exp.Column) or (isinstance(one, exp.Literal) and one.is_string) for one in items
    ):
        asked = ["names", *(one.name for one in items)]
    elif (pattern := _like(value)) is not None:
        asked = ["pattern", pattern]
    else:
        call.refuse("name each column, as in SELECT min(a) AS a, min(b) AS b, or write COLUMNS('a|b')")
    return f"{COLUMNS_OF}({', '.join(map(text_literal, asked))})"


def _like(value: Any) -> str | None:
    """Return `lambda c: c LIKE 'a%'` as a regular expression; None for another value."""
    from sqlglot import exp

    found = value.this if isinstance(value, exp.Lambda) and len(value.expressions) == 1 else None
    if not isinstance(found, exp.Like | exp.ILike) or found.this.name != value.expressions[0].name:
        return None
    pattern = found.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        return None
    text = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern.name)
    return f"{'(?i)' if isinstance(found, exp.ILike) else ''}^{text}$"


def _part(call: Call) -> str:
    """Write SPLIT_PART: DuckDB splits into letters at an empty separator, and has no part 0."""
    if len(call.args) != 3:
        call.refuse("write split_part(text, ',', 1)")
    if call.text(1) and call.number(2):
        return str(call.generator.func("split_part", *call.args))
    text, separator, place = (call.sql(index) for index in range(3))
    nulls = " OR ".join(f"{one} IS NULL" for one in (text, separator, place))
    return f"(CASE WHEN NOT ({nulls}) THEN coalesce(array_element({SPLIT}({text}, {separator}), {place}), '') END)"


def _series(call: Call) -> str:
    """Write a series; a series of dates by an interval has timestamps in DuckDB."""
    from sqlglot import exp

    args = list(call.args)
    if len(args) == 3 and isinstance(args[0], exp.Cast) and args[0].to.this == exp.DType.DATE:
        args = [*(exp.cast(one.copy(), "TIMESTAMP") for one in args[:2]), args[2]]
    return str(call.generator.func(call.name, *args))


_MICROSECONDS: Final = "CAST(round(date_part('epoch', {0}) * 1000000) AS BIGINT)"
_PLACE: Final = f"{LAMBDA_PREFIX}60_place"
_SELECTED: Final = f"array_transform({{1}}, lambda {_PLACE} : CASE WHEN {_PLACE} > 0 THEN {{0}}[{_PLACE}] END)"
_HAS: Final = form("(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(array_has({0}, {1}), false) END)")

_REFUSED: Final[Table] = {
    **dict.fromkeys(("STRUCT_KEYS", "STRUCT_VALUES"), no("name the fields, as in [s.a, s.b]")),
    **dict.fromkeys(
        ("JSON_TRANSFORM", "FROM_JSON", "JSON_TRANSFORM_STRICT", "FROM_JSON_STRICT"),
        no("write CAST(json_extract_string(json, '$.name') AS INT) for each name"),
    ),
    "JSON_PRETTY": no("write to_json(value), which has no line breaks"),
    "JSON": no("write CAST(text AS JSON)"),
    "TRY": no("write TRY_CAST(text AS INT), or CASE WHEN with a test of the values"),
    "ALIAS": no("write the name as a text"),
    "GETVARIABLE": no("write the value, or a parameter such as $1"),
    "CURRENT_SETTING": no("write SHOW with the name of the setting, as a statement of its own"),
    "EQUI_WIDTH_BINS": no("write range(least, most, width)"),
    "PG_TYPEOF": no("write arrow_typeof(x) in the default dialect"),
    **dict.fromkeys(("CAN_CAST_IMPLICITLY", "VECTOR_TYPE", "TXID_CURRENT"), no("leave it out")),
    **dict.fromkeys(("GAMMA", "LGAMMA"), no("write factorial(n - 1) for a whole number n")),
    "NEXTAFTER": no("write x + abs(x) * 1e-15"),
    "SIGNBIT": no("write x < 0"),
    "MAP_CONCAT": no("write map(list_concat(map_keys(a), map_keys(b)), list_concat(map_values(a), map_values(b)))"),
    "MAP_FROM_ENTRIES": no("write map(keys, values) with a list of keys and a list of values"),
    "ARRAY_CROSS_PRODUCT": no("write the products of the elements, as in a[2] * b[3] - a[3] * b[2]"),
    "REGEXP_ESCAPE": no("write the pattern with a backslash before each sign"),
    **dict.fromkeys(
        ("FORMATREADABLESIZE", "FORMATREADABLEDECIMALSIZE"), no("write round(bytes / 1048576.0, 1) || ' MiB'")
    ),
    **{
        f"{kind}_{name}": no(_RANDOM_ACCESS)
        for kind in ("LIST", "ARRAY")
        for name in ("STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "SEM", "MAD", "KURTOSIS", "SKEWNESS")
    },
}
"""Functions that the server lacks."""

DUCKDB: Final[Table] = {
    **_of_vectors(),
    "ARRAY_LENGTH": form("CAST(array_length({0}) AS BIGINT)", "CAST(array_length({0}, {1}) AS BIGINT)"),
    "APPROX_COUNT_DISTINCT": form("approx_distinct({0})"),
    "APPROX_QUANTILE": no("write quantile_cont(x, 0.5)"),
    **dict.fromkeys(("ARRAY_CONTAINS", "ARRAY_HAS", "LIST_CONTAINS", "LIST_HAS"), _HAS),
    "ARRAY_TO_STRING": form(
        f"(CASE WHEN {{0}} IS NOT NULL AND coalesce(array_length({{0}}), 0) = 0 THEN ''"
        f" WHEN {_KNOWN} > 0 THEN array_to_string({{0}}, {{1}}) END)"
    ),
    "BIT_COUNT": no("write the bits by & and >>, and add them"),
    "COLUMNS": _columns,
    "CONCAT": _joined("concat"),
    "CONCAT_WS": _joined("concat_ws"),
    "CENTURY": form("CAST(ceil(date_part('year', {0}) / 100.0) AS BIGINT)"),
    **dict.fromkeys(
        ("DATE_SUB", "DATESUB"), no("it counts whole elapsed units: write date_diff('day', a, b) for days, and divide")
    ),
    "ADD": form("({0} + {1})"),
    "SUBTRACT": form("({0} - {1})"),
    "MULTIPLY": form("({0} * {1})"),
    "DIVIDE": form("({0} // {1})"),
    **{f"TO_{name}S": form(f"(CAST({{0}} AS BIGINT) * INTERVAL '{length}')") for name, length in _LENGTHS.items()},
    "TO_SECONDS": form("(CAST({0} AS DOUBLE) * INTERVAL '1 second')"),
    "TO_MILLISECONDS": form("(CAST({0} AS DOUBLE) * INTERVAL '1 millisecond')"),
    "TO_MICROSECONDS": form("(CAST({0} AS BIGINT) * INTERVAL '1 microsecond')"),
    **dict.fromkeys(("BIN", "TO_BINARY"), no("write the bits by & and >>, and join them")),
    "CONSTANT_OR_NULL": form("(CASE WHEN {1} IS NOT NULL THEN {0} END)"),
    "ENCODE": form("CAST({0} AS BYTEA)"),
    "DECODE": form("CAST({0} AS VARCHAR)"),
    "EDITDIST3": form("CAST(levenshtein({0}, {1}) AS BIGINT)"),
    "EPOCH_NS": form("(CAST(round(date_part('epoch', {0}) * 1000000) AS BIGINT) * 1000)"),
    "ERA": form("(CASE WHEN date_part('year', {0}) > 0 THEN 1 WHEN {0} IS NOT NULL THEN 0 END)"),
    "GEN_RANDOM_UUID": form("uuid()"),
    "ISOYEAR": form("CAST(date_part('isoyear', {0}) AS BIGINT)"),
    "JSON_EXISTS": form("(json_extract({0}, {1}) IS NOT NULL)"),
    "JSON_GROUP_ARRAY": form(f"{JSON_LIST}(array_agg({_json('{0}')}))"),
    "JSON_GROUP_OBJECT": form(f"{JSON_OBJECT}(array_agg(CAST({{0}} AS VARCHAR)), array_agg({_json('{1}')}))"),
    "JULIAN": form("(date_part('epoch', {0}) / 86400.0 + 2440588.0)"),
    **dict.fromkeys(
        ("LIST_BOOL_OR", "ARRAY_BOOL_OR"), form(f"(CASE WHEN {_KNOWN} > 0 THEN array_has({{0}}, true) END)")
    ),
    **dict.fromkeys(("LIST_BOOL_AND", "ARRAY_BOOL_AND"), _of_known("NOT array_has({0}, false)")),
    **dict.fromkeys(("LIST_FIRST", "ARRAY_FIRST"), form("array_element({0}, 1)")),
    **dict.fromkeys(("LIST_LAST", "ARRAY_LAST"), form("array_element({0}, -1)")),
    "LIST_STRING_AGG": _of_known("array_to_string({0}, ',')"),
    **dict.fromkeys(("LIST_MEDIAN", "LIST_MODE", "LIST_STDDEV_POP", "LIST_GRADE_UP"), no(_RANDOM_ACCESS)),
    "MAP_CONTAINS": form("(CASE WHEN {0} IS NOT NULL THEN array_has(map_keys({0}), {1}) END)"),
    "UNHEX": form("decode({0}, 'hex')"),
    "WEIGHTED_AVG": form("(sum(CAST({0} AS DOUBLE) * {1}) / sum(CASE WHEN {0} IS NOT NULL THEN {1} END))"),
    "DECADE": form("CAST(floor(date_part('year', {0}) / 10.0) AS BIGINT)"),
    "EPOCH_MS": _milliseconds,
    "EPOCH_US": form(_MICROSECONDS),
    "EVEN": form("(signum({0}) * ceil(abs(CAST({0} AS DOUBLE)) / 2) * 2)"),
    **dict.fromkeys(("FAVG",), named("avg")),
    "FMOD": form("(CAST({0} AS DOUBLE) % {1})"),
    **dict.fromkeys(("FSUM", "KAHAN_SUM", "SUMKAHAN"), named("sum")),
    "HEX": form("upper(encode({0}, 'hex'))"),
    "ISFINITE": form("(abs({0}) < CAST('Infinity' AS DOUBLE))"),
    "ISINF": form("(abs({0}) = CAST('Infinity' AS DOUBLE))"),
    "JSON_ARRAY_LENGTH": _of_json("json_array_length({0})", "0"),
    **dict.fromkeys(("JSON_EXTRACT", "JSON_EXTRACT_PATH"), _read_json("json_extract")),
    **dict.fromkeys(("JSON_EXTRACT_STRING", "JSON_EXTRACT_PATH_TEXT"), _read_json("json_extract_string")),
    "JSON_KEYS": form(f"{DUCKDB_KEYS}({{0}})", f"{DUCKDB_KEYS}(json_extract({{0}}, {{1}}))"),
    "JSON_ARRAY": _list,
    "JSON_OBJECT": _object,
    **dict.fromkeys(("TO_JSON", "JSON_QUOTE", "ARRAY_TO_JSON", "ROW_TO_JSON"), _one_json),
    "JSON_TYPE": no("write json_get_str(text, 'name'), or starts_with(text, '[')"),
    **dict.fromkeys(("LIST_COUNT", "ARRAY_COUNT"), _of_list(_KNOWN)),
    **dict.fromkeys(("LIST_DISTINCT", "ARRAY_DISTINCT"), form("array_distinct(array_compact({0}))")),
    **dict.fromkeys(("LIST_MIN", "ARRAY_MIN"), named("array_min")),
    **dict.fromkeys(
        ("LIST_SORT", "ARRAY_SORT"),
        form("array_sort({0}, 'ASC', 'NULLS LAST')", "array_sort({0}, {1}, 'NULLS LAST')", "array_sort({0}, {1}, {2})"),
    ),
    **dict.fromkeys(("LIST_REVERSE_SORT", "ARRAY_REVERSE_SORT"), form("array_reverse(array_sort({0}))")),
    **dict.fromkeys(
        ("LIST_UNIQUE", "ARRAY_UNIQUE"),
        _of_list("CAST(coalesce(array_length(array_distinct(array_compact({0}))), 0) AS BIGINT)"),
    ),
    "LIST": named("array_agg"),
    "JACCARD": no("write levenshtein(a, b), or jaro_winkler_similarity(a, b)"),
    **dict.fromkeys(
        ("JSON_CONTAINS", "JSON_STRUCTURE", "JSON_MERGE_PATCH"),
        no("write json_extract_string(json, '$.name') for each name"),
    ),
    **dict.fromkeys(("PARSE_DIRNAME", "PARSE_DIRPATH", "PARSE_PATH"), no("write split_part(path, '/', -1)")),
    "PARSE_FILENAME": form("regexp_replace({0}, '^.*[/\\\\]', '')", advice="write split_part(path, '/', -1)"),
    "FDIV": form("floor(CAST({0} AS DOUBLE) / {1})"),
    "GET_CURRENT_TIMESTAMP": form("now()"),
    **_REFUSED,
    "BAR": no("write repeat('#', CAST(value AS BIGINT))"),
    "FORMAT_BYTES": no("write round(bytes / 1048576.0, 1) || ' MiB'"),
    "URL_ENCODE": form(f"replace(replace(replace({URL_ENCODED}({{0}}), '+', '%20'), '%7E', '~'), '*', '%2A')"),
    "URL_DECODE": no("write replace(text, '%20', ' ') for each sign"),
    **dict.fromkeys(("STRUCT_INSERT", "STRUCT_CONCAT", "STRUCT_UPDATE"), no("write struct_pack(a := s.a, b := 2)")),
    "BITSTRING_AGG": no("write bit_or(1 << x)"),
    "RESERVOIR_QUANTILE": no("write quantile_cont(x, 0.5)"),
    "LIST_VALUE": named("make_array"),
    **dict.fromkeys(("LIST_WHERE", "LIST_REDUCE"), no(_RANDOM_ACCESS)),
    **dict.fromkeys(("LIST_SELECT", "ARRAY_SELECT"), form(_SELECTED)),
    **dict.fromkeys(("LIST_PACK", "ARRAY_VALUE"), named("make_array")),
    "LIST_HISTOGRAM": form("list_aggregate({0}, 'histogram')"),
    "ARRAY_PUSH_FRONT": form("array_prepend({1}, {0})"),
    "MAD": no("write median(abs(x - m)) over a subquery with the median m"),
    "MAKE_TIMESTAMP": form(
        TIMESTAMP_FROM_PARTS, "arrow_cast(to_timestamp_micros({0}), 'Timestamp(Microsecond, None)')"
    ),
    "MAP_EXTRACT_VALUE": form("{0}[{1}]"),
    "MICROSECOND": form("CAST(date_part('microsecond', {0}) AS BIGINT)"),
    "MILLISECOND": form("CAST(date_part('millisecond', {0}) AS BIGINT)"),
    "NFC_NORMALIZE": form(f"{NORMAL_FORM}({{0}}, 'NFC')"),
    **dict.fromkeys(("ORD", "UNICODE"), form("(CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END)")),
    **dict.fromkeys(("QUANTILE", "QUANTILE_DISC"), _within),
    **dict.fromkeys(("RANGE", "GENERATE_SERIES"), _series),
    "REGEXP_FULL_MATCH": form("regexp_like({0}, '^(?:' || {1} || ')$')"),
    "SHA1": form(f"{SHA_1}({{0}})"),
    "SHA256": form("encode(sha256({0}), 'hex')"),
    "STRIP_ACCENTS": form(f"{NORMAL_FORM}(regexp_replace({NORMAL_FORM}({{0}}, 'NFD'), '\\p{{Mn}}+', '', 'g'), 'NFC')"),
    "SPLIT_PART": _part,
    "STRLEN": form("CAST(octet_length({0}) AS BIGINT)"),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), substring),
    "TO_HEX": form("upper(to_hex({0}))"),
    "TRY_STRPTIME": no("write TRY_CAST(text AS TIMESTAMP)"),
    "TYPEOF": no("write arrow_typeof(x) in the default dialect"),
    **dict.fromkeys(("UPPER", "UCASE"), form(f"{SIMPLE_UPPER}({{0}})")),
    **dict.fromkeys(("LOWER", "LCASE"), form(f"{SIMPLE_LOWER}({{0}})")),
    "XOR": form("(({0} | {1}) - ({0} & {1}))"),
    "YEARWEEK": form("CAST(date_part('isoyear', {0}) * 100 + date_part('week', {0}) AS BIGINT)"),
}
"""The functions that differ from the server's; it reads the others under their own names."""
