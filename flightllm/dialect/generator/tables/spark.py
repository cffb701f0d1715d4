"""Write the functions of Spark and Databricks."""

import re
from typing import Final

from flightllm.dialect.generator.calls import Call, Rule, Table, form, named, no, same
from flightllm.dialect.generator.forms import added, match, part, substring, truncated, unit
from flightllm.dialect.generator.tables.shared import (
    NUMBERS,
    TEXTS,
    TIMESTAMP_FROM_PARTS,
    WIDTH_BUCKET,
    hashed,
    months_between,
    next_day,
)
from flightllm.dialect.generator.tables.spark_absent import SPARK_ABSENT
from flightllm.dialect.generator.tables.spark_lists import SPARK_LISTS
from flightllm.dialect.generator.tables.spark_texts import SPARK_TEXTS
from flightllm.dialect.generator.tables.spark_times import TIMES
from flightllm.functions.list_moments import KURTOSIS_POP
from flightllm.functions.text_parts import ALL_MATCHES
from flightllm.functions.text_places import CAPITALS, PLACE_IN_TEXT
from flightllm.functions.variants import VARIANT_JSON, VARIANT_TEXT
from flightllm.sql.passes.spark_values import REVERSED, ROUNDED

_TYPE: Final = re.compile(
    r"string|int|bigint|double|float|boolean|date|timestamp|decimal(\(\d+(, *\d+)?\))?", re.IGNORECASE
)
"""The simple types of variant_get."""


def _shifted(sign: str) -> Rule:
    def rule(call: Call) -> str:
        if len(call.args) == 3 and not sign:
            return added(call, unit(call, 0), call.sql(1), f"CAST({call.sql(2)} AS TIMESTAMP)")
        if len(call.args) != 2:
            call.refuse(f"write {call.name}(day, days)")
        count = call.sql(1)
        count = f"(-{count})" if sign else count
        return added(call, "day", count, f"CAST({call.sql(0)} AS DATE)")

    return rule


def _extract(call: Call) -> str:
    group = call.number(2) if len(call.args) > 2 else 1
    if group is None:
        call.refuse("write the group as a number")
    found = match(call, call.sql(0), group=group)
    return f"(CASE WHEN {call.sql(0)} IS NOT NULL AND {call.sql(1)} IS NOT NULL THEN coalesce({found}, '') END)"


def _all(call: Call) -> str:
    group = call.number(2) if len(call.args) > 2 else 1
    if group is None:
        call.refuse("write the group as a number")
    return f"{ALL_MATCHES}({call.sql(0)}, {call.sql(1)}, {group})"


def _truncated(call: Call) -> str:
    if call.name == "DATE_TRUNC":
        return f"date_trunc('{unit(call, 0)}', CAST({call.sql(1)} AS TIMESTAMP))"
    return truncated(unit(call, 1), f"CAST({call.sql(0)} AS DATE)")


def _at_path(cast: str) -> Rule:
    """Return a rule that reads a value of a JSON text as a value of a type, or as JSON without a type."""

    def rule(call: Call) -> str:
        if len(call.args) == 2:
            return f"{VARIANT_JSON}({call.sql(0)}, {call.sql(1)})"
        type_ = call.text(2)
        if type_ is None or not _TYPE.fullmatch(type_):
            call.refuse(f"write {call.name.lower()}(json, '$.name', 'int') with one of the simple types")
        return f"{cast}({VARIANT_TEXT}({call.sql(0)}, {call.sql(1)}) AS {type_})"

    return rule


def _chosen(call: Call) -> str:
    """Write ELT(n, a, b), the n-th of the other arguments."""
    cases = "".join(f" WHEN {place} THEN {call.sql(place)}" for place in range(1, len(call.args)))
    return f"(CASE {call.sql(0)}{cases} END)"


def _sorted(call: Call) -> str:
    """Write SORT_ARRAY(list, ascending), in which NULL is the least value."""
    rising = str(call.generator.sql(call.args[1])).lower() if len(call.args) > 1 else "true"
    if rising not in _ORDERS:
        call.refuse("write the order as true or false")
    return f"array_sort({call.sql(0)}, {_ORDERS[rising]})"


_FALLING: Final = (
    "(CASE WHEN {0} > {1} THEN 0 WHEN {0} <= {2} THEN {3} + 1"
    " ELSE CAST(floor(CAST({1} - {0} AS DOUBLE) * {3} / ({1} - {2})) AS BIGINT) + 1 END)"
)
"""The bucket where the first bound is the greater one."""
_ORDERS: Final = {"true": "'ASC', 'NULLS FIRST'", "false": "'DESC', 'NULLS LAST'"}


def _first(call: Call) -> str:
    """Write FIRST(x) and LAST(x); a second argument leaves out the rows without a value."""
    name = f"{call.name.removesuffix('_VALUE').lower()}_value({call.sql(0)})"
    known = str(call.generator.sql(call.args[1])).lower() if len(call.args) > 1 else "false"
    if known not in {"true", "false"}:
        call.refuse(f"write {call.name.lower()}(x, true)")
    return f"{name} IGNORE NULLS" if known == "true" else name


def _percentile(call: Call) -> str:
    """Write PERCENTILE_APPROX(x, share) as the value at that place of the order, which Spark has for 10,000 values."""
    from sqlglot import exp

    share = call.args[1]
    if len(call.args) > 3 or not isinstance(share, exp.Literal) or share.is_string:
        call.refuse("write percentile_approx(x, 0.5) with one number from 0 to 1, and one call for each")
    return f"percentile_disc({call.sql(1)}) WITHIN GROUP (ORDER BY {call.sql(0)})"


def _cast(name: str) -> Rule:
    """Return a rule for a call with the name of a type, such as `tinyint(x)`."""

    def rule(call: Call) -> str:
        from sqlglot import exp

        if len(call.args) != 1:
            call.refuse(f"write CAST(x AS {name})")
        made = exp.Cast(this=call.args[0].copy(), to=exp.DataType.build(name, dialect="spark"))
        return str(call.generator.sql(made))

    return rule


def _reversed(call: Call) -> str:
    """Write REVERSE of a list or a text; the type of another value tells which."""
    from sqlglot import exp

    value = call.args[0].unnest()
    named = str(value.this).upper().startswith(("ARRAY", "SPLIT", "COLLECT", "SORT_ARRAY"))
    return f"{'array_reverse' if named or isinstance(value, exp.Array) else REVERSED}({call.sql(0)})"


_IN_BOTH: Final = "array_has_any(array_compact({0}), array_compact({1}))"
_HAS_NULL: Final = "array_length({0}) > coalesce(array_length(array_compact({0})), 0)"
LISTS: Final[Table] = {
    "ARRAY_APPEND": form("(CASE WHEN {0} IS NOT NULL THEN array_append({0}, {1}) END)"),
    **same("ARRAY_COMPACT", "ARRAY_DISTINCT", "ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_MAX"),
    **same("ARRAY_MIN"),
    "ARRAY_CONTAINS": form(
        f"(CASE WHEN array_has({{0}}, {{1}}) THEN true WHEN {_HAS_NULL} OR {{1}} IS NULL THEN NULL"
        " WHEN {0} IS NOT NULL THEN false END)"
    ),
    "ARRAY_JOIN": form("array_to_string({0}, {1})", "array_to_string({0}, {1}, {2})"),
    "ARRAY_POSITION": form(
        "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(CAST(array_position({0}, {1}) AS BIGINT), 0) END)"
    ),
    "ARRAY_PREPEND": form("(CASE WHEN {0} IS NOT NULL THEN array_prepend({1}, {0}) END)"),
    "ARRAY_REMOVE": form("array_remove_all({0}, {1})"),
    "ARRAY_SORT": form("array_sort({0}, 'ASC', 'NULLS LAST')", advice="write array_sort(list)"),
    "ARRAYS_OVERLAP": form(
        f"(CASE WHEN {_IN_BOTH} THEN true WHEN {_HAS_NULL} OR {_HAS_NULL.replace('{0}', '{1}')} THEN NULL"
        " ELSE false END)"
    ),
    "FLATTEN": form(f"(CASE WHEN {_HAS_NULL} THEN NULL ELSE flatten({{0}}) END)"),
    "SLICE": form("array_slice({0}, {1}, {1} + {2} - 1)"),
    "SORT_ARRAY": _sorted,
}
"""Functions of lists."""
SPARK: Final[Table] = {
    **SPARK_ABSENT,
    **TEXTS,
    **NUMBERS,
    **LISTS,
    **SPARK_LISTS,
    **TIMES,
    **SPARK_TEXTS,
    **dict.fromkeys(("APPROX_PERCENTILE", "PERCENTILE_APPROX"), _percentile),
    **{name: _cast(name) for name in ("BIGINT", "SMALLINT", "TINYINT")},
    "DECIMAL": _cast("DECIMAL(10, 0)"),
    **dict.fromkeys(("BIT_GET", "GETBIT"), form("(({0} >> {1}) & 1)")),
    "MONTHNAME": form("to_char({0}, '%b')"),
    "SKEWNESS": no("write avg(power((x - m) / s, 3)) over a subquery with the avg m and the stddev_pop s"),
    **dict.fromkeys(("HASH", "XXHASH64"), no("write crc32(CAST(x AS STRING)), whose numbers differ")),
    "BINARY": no("write unhex(hex(text))"),
    "SHIFTRIGHTUNSIGNED": no("write shiftright(x, 1) for x >= 0"),
    "SCHEMA_OF_JSON": no("write json_object_keys(json)"),
    "JSON_TUPLE": no("write get_json_object(json, '$.a') for each name"),
    "FROM_CSV": no("write split(text, ',')[0] for each field"),
    "TO_CSV": no("write concat_ws(',', a, b)"),
    "TO_JSON": no(
        "write get_json_object(json, '$') for a JSON text, or json_object('a', a) after RESET flightllm.dialect"
    ),
    "MONOTONICALLY_INCREASING_ID": no("write row_number() OVER (ORDER BY id) - 1"),
    "SPARK_PARTITION_ID": no("the server has no partitions of Spark: write 0"),
    "ASSERT_TRUE": no("write SELECT count(*) FROM t WHERE NOT condition"),
    "SENTENCES": no("write split(text, ' ')"),
    "MASK": no("write regexp_replace(text, '[A-Z]', 'X')"),
    "HISTOGRAM_NUMERIC": no("write width_bucket(x, 0, 100, 10) as a key of GROUP BY, and count(*)"),
    **dict.fromkeys(("IS_VALID_UTF8", "VALIDATE_UTF8"), no("each text is valid here: write true")),
    "QUOTE": no("write concat(chr(39), text, chr(39))"),
    "TRY_TO_TIMESTAMP": no("write try_cast(text AS TIMESTAMP)"),
    "TRY_TO_BINARY": no("write unhex(text)"),
    "TO_BINARY": no("write unhex(text)"),
    "TRY_URL_DECODE": no("write url_decode(text)"),
    "LUHN_CHECK": no("write text RLIKE '^[0-9]{16}$' for the form of a number"),
    "MAKE_DT_INTERVAL": no("write INTERVAL '1' DAY * n"),
    "BROUND": no("write round(x), which rounds halves away from zero"),
    "COTH": form("(1 / tanh({0}))"),
    "CSC": form("(1 / sin({0}))"),
    "E": form("exp(1)"),
    "ELT": _chosen,
    "EVERY": form("bool_and({0})"),
    "EXPM1": form("(exp({0}) - 1)"),
    **dict.fromkeys(("FIRST", "FIRST_VALUE", "LAST", "LAST_VALUE"), _first),
    "ISNAN": form("coalesce(isnan({0}), false)"),
    "KURTOSIS": form(f"{KURTOSIS_POP}(array_agg(CAST({{0}} AS DOUBLE)))"),
    "LOG1P": form("ln(1 + {0})"),
    "DATE": form("CAST({0} AS DATE)"),
    "LTRIM": form("ltrim({0})", "ltrim({1}, {0})"),
    "MAKE_TIMESTAMP": form(TIMESTAMP_FROM_PARTS),
    "NANVL": form("nanvl({0}, {1})"),
    "PERCENTILE": form("percentile_cont({1}) WITHIN GROUP (ORDER BY {0})"),
    "PERCENTILE_DISC": named("percentile_disc"),
    "POSITIVE": form("({0})"),
    "REGEXP_INSTR": form("CAST(regexp_instr({0}, {1}) AS BIGINT)"),
    "REVERSE": _reversed,
    "RTRIM": form("rtrim({0})", "rtrim({1}, {0})"),
    "SEC": form("(1 / cos({0}))"),
    "STD": form("stddev({0})"),
    **dict.fromkeys(("TO_NUMBER", "TRY_TO_NUMBER"), no("write CAST(text AS DECIMAL(18, 2))")),
    "TRY_AVG": form("avg({0})"),
    "TRY_DIVIDE": form("(CASE WHEN {1} <> 0 THEN CAST({0} AS DOUBLE) / {1} END)"),
    "TYPEOF": no("write arrow_typeof(x) in the default dialect"),
    "ADD_MONTHS": form("CAST(CAST({0} AS DATE) + CAST({1} AS BIGINT) * INTERVAL '1 month' AS DATE)"),
    **dict.fromkeys(("CHARINDEX", "LOCATE"), form("strpos({1}, {0})", f"{PLACE_IN_TEXT}({{1}}, {{0}}, {{2}}, 1)")),
    "CONTAINS": form("contains({0}, {1})"),
    "INSTR": form("strpos({0}, {1})"),
    **dict.fromkeys(("CHR", "CHAR"), form("chr({0} % 256)")),
    **dict.fromkeys(("DATE_ADD", "DATEADD"), _shifted("")),
    "DATE_SUB": _shifted("-"),
    **dict.fromkeys(("DATE_TRUNC", "TRUNC"), _truncated),
    "DAY": part("day"),
    "DAYNAME": form("to_char({0}, '%a')"),
    "DAYOFMONTH": part("day"),
    "DAYOFWEEK": form("CAST(date_part('dow', {0}) + 1 AS BIGINT)"),
    "DAYOFYEAR": part("doy"),
    "EQUAL_NULL": form("({0} IS NOT DISTINCT FROM {1})"),
    "GETDATE": form("CAST(now() AS TIMESTAMP)"),
    "HOUR": part("hour"),
    "TRY_PARSE_JSON": form(f"{VARIANT_JSON}({{0}}, '$')"),
    "TRY_VARIANT_GET": _at_path("TRY_CAST"),
    "VARIANT_GET": _at_path("CAST"),
    "HYPOT": form("sqrt(power({0}, 2) + power({1}, 2))"),
    "IF": form("(CASE WHEN {0} THEN {1} ELSE {2} END)"),
    "INITCAP": form(f"{CAPITALS}({{0}}, ' ')"),
    "ISNOTNULL": form("({0} IS NOT NULL)"),
    "ISNULL": form("({0} IS NULL)"),
    "LEVENSHTEIN": form("levenshtein({0}, {1})"),
    **dict.fromkeys(("LN", "LOG"), form("ln(CASE WHEN {0} > 0 THEN {0} END)", "log({0}, {1})")),
    "MAKE_DATE": form("make_date({0}, {1}, {2})"),
    "MINUTE": part("minute"),
    "MONTH": part("month"),
    "MONTHS_BETWEEN": months_between(8),
    "NEGATIVE": form("(-{0})"),
    "NEXT_DAY": next_day,
    "PMOD": form("(CASE WHEN {0} % {1} < 0 THEN ({0} % {1} + {1}) % {1} ELSE {0} % {1} END)"),
    "QUARTER": part("quarter"),
    "RAND": form("random()"),
    "REGEXP_COUNT": form("regexp_count({0}, {1})"),
    "REGEXP_EXTRACT": _extract,
    "REGEXP_EXTRACT_ALL": _all,
    **dict.fromkeys(("REGEXP_LIKE", "REGEXP", "RLIKE"), form("regexp_like({0}, {1})")),
    "REGEXP_REPLACE": form("regexp_replace({0}, {1}, {2}, 'g')"),
    "REGEXP_SUBSTR": lambda call: match(call, call.sql(0), group=0),
    "ROUND": form("round({0})", f"{ROUNDED}({{0}}, {{1}})"),
    "SECOND": form("CAST(trunc(date_part('second', {0})) AS BIGINT)"),
    "SHIFTLEFT": form("({0} << {1})"),
    "SHIFTRIGHT": form("({0} >> {1})"),
    "SHA2": hashed,
    "SPLIT_PART": form("split_part({0}, {1}, {2})"),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), substring),
    "SUBSTRING_INDEX": form("substring_index({0}, {1}, {2})"),
    "UNBASE64": form("decode({0}, 'base64pad')"),
    "UNHEX": form("decode({0}, 'hex')"),
    "UUID": form("uuid()"),
    **dict.fromkeys(("VARIANCE", "VAR_SAMP"), form("var_samp({0})")),
    "WEEKDAY": form("CAST(date_part('isodow', {0}) - 1 AS BIGINT)"),
    "WEEKOFYEAR": part("week"),
    "WIDTH_BUCKET": form(f"(CASE WHEN {{1}} <= {{2}} THEN {WIDTH_BUCKET} ELSE {_FALLING} END)"),
    "YEAR": part("year"),
}
"""How each function is written. A class of sqlglot writes a function that the table does not have."""
