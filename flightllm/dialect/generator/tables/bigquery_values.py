"""Write BigQuery's functions over lists, JSON and values of any types, and those after SAFE and a dot."""

from typing import Any, Final

from flightllm.common.names import (
    FORMAT_OF,
    JSON_LIST_OF,
    JSON_OBJECT_OF,
    JSON_OF,
    JSON_STRING_OF,
    SAFE_DIFFERENCE,
    SAFE_PRODUCT,
    SAFE_SUM,
)
from flightllm.dialect.generator.calls import Call, Table, form, no
from flightllm.dialect.generator.forms import groups_of, known, substring
from flightllm.functions.json_keys import JSON_KEYS
from flightllm.functions.number_checks import ABOVE_ZERO, BIT_COUNT, NOT_NEGATIVE, RANGE_BUCKET
from flightllm.functions.text_parts import SPLIT
from flightllm.functions.text_places import SOUND
from flightllm.functions.unicode_texts import CODE_POINTS, NORMAL_FORM, OF_CODE_POINTS

_MOST_QUANTILES: Final = 200
_DEEPEST: Final = 100
_FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")


def _all(name: str) -> str:
    return f"{name}({{*}})"


def _object(call: Call) -> str:
    from sqlglot import exp

    if len(call.args) % 2 or any(isinstance(one, exp.Array) for one in call.args[::2]):
        call.refuse("write the names and values in turn: JSON_OBJECT('name', value)")
    return f"{JSON_OBJECT_OF}({', '.join(call.sql(place) for place in range(len(call.args)))})"


def _slice(call: Call) -> str:
    ends = []
    for place in (1, 2):
        number = call.number(place)
        if number is None:
            call.refuse("write its places as numbers: ARRAY_SLICE(list, 0, 2)")
        ends.append(number + 1 if number >= 0 else number)
    return f"array_slice({call.sql(0)}, {ends[0]}, {ends[1]})"


def _joined_lists(call: Call) -> str:
    from sqlglot import exp

    return "NULL" if any(isinstance(one, exp.Null) for one in call.args) else known("array_concat({*})")(call)


def _negated(call: Call) -> str:
    """Write a negative number; the least one has no positive one."""
    return "CAST(NULL AS BIGINT)" if call.number(0) == -(2**63) else f"{SAFE_DIFFERENCE}(0, {call.sql(0)})"


def _length(call: Call) -> str:
    """Write the number of letters of a text, and of the bytes of a literal or a cast."""
    if len(call.args) != 1:
        call.refuse("write LENGTH(value)")
    if _is_bytes(call.args[0]):
        return f"(CAST(length(encode({call.sql(0)}, 'hex')) AS BIGINT) / 2)"
    return f"CAST(length({call.sql(0)}) AS BIGINT)"


def _is_bytes(value: Any) -> bool:
    """Return whether a value is surely made of bytes: a literal, or a cast to bytes."""
    from sqlglot import exp

    cast = isinstance(value, exp.Cast) and value.to.this in {exp.DType.BINARY, exp.DType.VARBINARY}
    return cast or str(value.args.get("this")) in {"FROM_HEX", "FROM_BASE64"}


def _sound(call: Call) -> str:
    """Write a sound that begins with the text's first letter, which can be a small one."""
    text = call.sql(0)
    sound = f"{SOUND}({text})"
    small = f"lower(left({sound}, 1)) || substr({sound}, 2)"
    return f"(CASE WHEN regexp_like({text}, '^[^A-Za-z]*[a-z]') THEN {small} ELSE {sound} END)"


def _points(call: Call) -> str:
    if _is_bytes(call.args[0]):
        call.refuse("it takes a text here: write TO_HEX(bytes)")
    return f"{CODE_POINTS}({call.sql(0)})"


def _split(call: Call) -> str:
    """Write a list of parts; an empty separator gives the letters."""
    between = "','" if len(call.args) < 2 else call.sql(1)
    if call.text(1) or len(call.args) < 2:
        return f"array_pop_front(string_to_array({between} || {call.sql(0)}, {between}))"
    return f"(CASE WHEN {between} IS NOT NULL THEN {SPLIT}({call.sql(0)}, {between}) END)"


def _place_of_match(call: Call) -> str:
    groups = groups_of(call.text(1))
    if groups is None or groups > 1 or not 2 <= len(call.args) <= 4:
        call.refuse("write REGEXP_INSTR(text, pattern, position, occurrence), with a literal of at most one group")
    rest = [call.sql(place) if place < len(call.args) else "1" for place in (2, 3)]
    return f"CAST(regexp_instr({call.sql(0)}, {call.sql(1)}, {', '.join(rest)}, '', {groups}) AS BIGINT)"


def _quantiles(call: Call) -> str:
    """Write the values at equal distances in the order of all values, which are exact here."""
    from sqlglot import exp

    count = call.number(1)
    if count is None or not 1 <= count <= _MOST_QUANTILES or isinstance(call.args[0], exp.Distinct):
        call.refuse(f"write APPROX_QUANTILES(x, n) with a number n from 1 to {_MOST_QUANTILES}")
    value = call.sql(0)
    all_ = f"array_agg({value} ORDER BY {value}) FILTER (WHERE {value} IS NOT NULL)"
    last = f"CAST(count({value}) AS BIGINT)"
    places = [f"greatest(({last} * {place} + {count - 1}) / {count}, 1)" for place in range(count + 1)]
    listed = ", ".join(f"array_element({all_}, {place})" for place in places)
    return f"(CASE WHEN count({value}) > 0 THEN make_array({listed}) END)"


def _keys(call: Call) -> str:
    return f"{JSON_KEYS}({call.sql(0)}, {call.sql(1) if len(call.args) > 1 else _DEEPEST})"


def _normal(call: Call) -> str:
    name = (call.literal(1) or "NFC").upper()
    if name not in _FORMS:
        call.refuse(f"write one of the forms {', '.join(_FORMS)}")
    return f"{NORMAL_FORM}({call.sql(0)}, '{name}{'-' if 'CASEFOLD' in call.name else ''}')"


def _of_length(call: Call) -> str:
    """Write a function whose second argument is a length."""
    if call.args and _is_bytes(call.args[0]):
        call.refuse(f"it takes a text here: write {call.name}(SAFE_CONVERT_BYTES_TO_STRING(bytes), …)")
    if len(call.args) > 2 and call.literal(2) == "":
        call.refuse("write a pattern that is not empty, as in LPAD(text, 5, ' ')")
    length = call.sql(1)
    number = call.number(1)
    if number is None or number < 0:
        length = f"{NOT_NEGATIVE}(CAST({length} AS BIGINT), '{call.name}')"
    others = [call.sql(place) for place in range(2, len(call.args))]
    return f"{call.name.lower()}({', '.join([call.sql(0), length, *others])})"


def _safe_part(call: Call) -> str:
    """Write a part of a text by the rules of SUBSTR; a negative length gives NULL."""
    if len(call.args) != 3 or (call.number(2) or -1) >= 0:
        return substring(call)
    length = call.sql(2)
    return f"(CASE WHEN {length} >= 0 THEN {substring(call)} END)"


def _reversed(call: Call) -> str:
    if _is_bytes(call.args[0]):
        call.refuse("it reverses texts here: write REVERSE(SAFE_CONVERT_BYTES_TO_STRING(bytes))")
    return f"reverse({call.sql(0)})"


def _not_negative(text: str) -> str:
    return f"(CASE WHEN {{1}} >= 0 THEN {text} END)"


def _positive(text: str) -> str:
    return f"(CASE WHEN {{0}} > 0 THEN {text} END)"


def _checked(name: str) -> str:
    return f"{name.lower()}({ABOVE_ZERO}(CAST({{0}} AS DOUBLE), '{name}'))"


_UNFAILING: Final = (
    *("UPPER", "LOWER", "LENGTH", "CHAR_LENGTH", "BYTE_LENGTH", "TRIM", "LTRIM", "RTRIM", "CONCAT", "REVERSE"),
    *("REPLACE", "STARTS_WITH", "ENDS_WITH", "STRPOS", "JSON_VALUE", "JSON_QUERY", "JSON_EXTRACT_SCALAR"),
    *("JSON_EXTRACT", "TO_JSON_STRING", "DATE_DIFF", "DATETIME_DIFF", "TIMESTAMP_DIFF", "DATE_TRUNC", "LAST_DAY"),
    *("DATETIME_TRUNC", "TIMESTAMP_TRUNC", "FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP", "FORMAT_TIME"),
    *("SIGN", "CEIL", "FLOOR", "ROUND", "TRUNC", "ABS", "GREATEST", "LEAST", "SAFE_DIVIDE", "SAFE_ADD", "SPLIT"),
    *("ARRAY_LENGTH", "ARRAY_REVERSE", "ARRAY_CONCAT", "TO_HEX", "MD5", "SHA256", "SHA512", "INITCAP", "IF"),
)
"""Functions without errors of their own: SAFE and a dot change nothing."""
VALUES: Final[Table] = {
    "FORMAT": form(_all(FORMAT_OF), advice="write FORMAT('%d of %s', number, text)"),
    "TO_JSON": form(
        f"coalesce({JSON_OF}({{0}}), 'null')",
        advice="write TO_JSON(value), or TO_JSON_STRING for wide numbers as texts",
    ),
    "TO_JSON_STRING": form(
        # The cast keeps the text apart from JSON: TO_JSON of it writes quotes.
        f"CAST(coalesce({JSON_STRING_OF}({{0}}), 'null') AS VARCHAR)",
        advice="write TO_JSON_STRING(value)",
    ),
    "JSON_OBJECT": _object,
    **dict.fromkeys(
        ("JSON_SET", "JSON_REMOVE", "JSON_STRIP_NULLS", "JSON_ARRAY_APPEND", "JSON_ARRAY_INSERT"),
        no("write JSON_OBJECT('name', value, …) or JSON_ARRAY(value, …) with JSON_QUERY(json, '$.name') as a value"),
    ),
    "JSON_FLATTEN": no("write UNNEST(JSON_QUERY_ARRAY(json)) in FROM"),
    "JSON_CONTAINS": no("write JSON_VALUE(json, '$.name') = 'text'"),
    **{
        name: no("write ARRAY(SELECT SAFE_CAST(x AS INT64) FROM UNNEST(JSON_VALUE_ARRAY(json)) AS x)")
        for name in (f"{mode}{kind}_ARRAY" for mode in ("", "LAX_") for kind in ("INT64", "FLOAT64", "BOOL", "STRING"))
    },
    "REGEXP_MATCH": no("write REGEXP_CONTAINS(text, r'^(?:pattern)$')"),
    "REGEXP_EXTRACT_GROUPS": no("write REGEXP_EXTRACT(text, pattern) for each group"),
    "SPLIT_SUBSTR": no("write SPLIT(text, '.')[SAFE_ORDINAL(1)] for one part"),
    "ARRAY_IS_DISTINCT": no("write (SELECT COUNT(*) = COUNT(DISTINCT x) FROM UNNEST(list) AS x)"),
    "ARRAY_INCLUDES": no("write x IN UNNEST(list)"),
    "ARRAY_ZIP": no("write FROM UNNEST(a) AS x WITH OFFSET AS i, and b[SAFE_OFFSET(i)]"),
    **dict.fromkeys(
        ("TIMESTAMP_BUCKET", "DATETIME_BUCKET", "DATE_BUCKET"), no("write TIMESTAMP_TRUNC(value, DAY), or another unit")
    ),
    "JSON_ARRAY": form(_all(JSON_LIST_OF)),
    "JSON_KEYS": _keys,
    "JSON_TYPE": form(
        "(CASE substr(ltrim({0}), 1, 1) WHEN '{{' THEN 'object' WHEN '[' THEN 'array' WHEN '\"' THEN 'string'"
        " WHEN 't' THEN 'boolean' WHEN 'f' THEN 'boolean' WHEN 'n' THEN 'null'"
        " ELSE CASE WHEN {0} IS NOT NULL THEN 'number' END END)".replace("{{", "{")
    ),
    "ARRAY_TO_STRING": form("array_to_string({0}, {1})", "array_to_string({0}, {1}, {2})"),
    "ARRAY_CONCAT": _joined_lists,
    "ARRAY_REVERSE": form("array_reverse({0})"),
    "ARRAY_FIRST": form("array_element({0}, 1)"),
    "ARRAY_LAST": form("array_element({0}, -1)"),
    "ARRAY_SLICE": _slice,
    "GENERATE_TIMESTAMP_ARRAY": form("generate_series(CAST({0} AS TIMESTAMP), CAST({1} AS TIMESTAMP), {2})"),
    **dict.fromkeys(("LEFT", "RIGHT", "REPEAT", "LPAD", "RPAD"), _of_length),
    "REVERSE": _reversed,
    "LENGTH": _length,
    "SPLIT": _split,
    "REGEXP_INSTR": _place_of_match,
    "FROM_BASE64": form("decode({0}, 'base64')"),
    "RANGE_BUCKET": form(f"{RANGE_BUCKET}({{0}}, {{1}})"),
    "COSINE_DISTANCE": form("cosine_distance({0}, {1})"),
    "EUCLIDEAN_DISTANCE": form("array_distance({0}, {1})"),
    "APPROX_QUANTILES": _quantiles,
    **dict.fromkeys(
        ("APPROX_TOP_COUNT", "APPROX_TOP_SUM"),
        no("write SELECT x, count(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 3, with sum(y) in place of count(*)"),
    ),
    **dict.fromkeys(("IFERROR", "NULLIFERROR", "ISERROR"), no("write SAFE_CAST, SAFE_DIVIDE or SAFE.NAME(x)")),
    "TO_CODE_POINTS": _points,
    "SOUNDEX": _sound,
    "CODE_POINTS_TO_STRING": form(f"{OF_CODE_POINTS}({{0}})"),
    **dict.fromkeys(("NORMALIZE", "NORMALIZE_AND_CASEFOLD"), _normal),
    "SAFE_CONVERT_BYTES_TO_STRING": form("arrow_cast({0}, 'Utf8')"),
    "BIT_COUNT": form(f"{BIT_COUNT}({{0}})"),
    "SAFE_ADD": form(f"{SAFE_SUM}({{0}}, {{1}})"),
    "SAFE_SUBTRACT": form(f"{SAFE_DIFFERENCE}({{0}}, {{1}})"),
    "SAFE_MULTIPLY": form(f"{SAFE_PRODUCT}({{0}}, {{1}})"),
    "SAFE_NEGATE": _negated,
    "LN": form(_checked("LN")),
    "LOG10": form(_checked("LOG10")),
    "LOG": form(_checked("LOG").replace("log(", "ln("), f"log({{1}}, {ABOVE_ZERO}(CAST({{0}} AS DOUBLE), 'LOG'))"),
    "SAFE.LN": form(_positive("ln({0})")),
    "SAFE.LOG10": form(_positive("log10({0})")),
    "SAFE.LOG": form(_positive("ln({0})"), _positive("log({1}, {0})")),
    "SAFE.SQRT": form("(CASE WHEN {0} >= 0 THEN sqrt({0}) END)"),
    "SAFE.DIV": form("({0} / nullif({1}, 0))"),
    "SAFE.MOD": form("({0} % nullif({1}, 0))"),
    **{f"SAFE.{name}": form(_not_negative(f"{name.lower()}({{0}}, {{1}})")) for name in ("LEFT", "RIGHT", "REPEAT")},
    **dict.fromkeys(("SAFE.SUBSTR", "SAFE.SUBSTRING"), _safe_part),
    "SAFE.TIMESTAMP": form("TRY_CAST({0} AS TIMESTAMPTZ)"),
    "SAFE.DATETIME": form("TRY_CAST({0} AS TIMESTAMP)"),
    "SAFE.DATE": form(
        "TRY_CAST({0} AS DATE)",
        "TRY_CAST(concat_ws('-', lpad({0}, 4, '0'), lpad({1}, 2, '0'), lpad({2}, 2, '0')) AS DATE)",
    ),
    "SAFE.ARRAY_FIRST": form("array_element({0}, 1)"),
    "SAFE.ARRAY_LAST": form("array_element({0}, -1)"),
}
"""How each function over values is written."""
UNFAILING: Final = frozenset(_UNFAILING)
