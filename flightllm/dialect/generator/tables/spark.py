"""Write the functions of Spark and Databricks."""

import re
from typing import Final

from flightllm.dialect.generator.calls import Call, Rule, Table, form, no
from flightllm.dialect.generator.dates import difference
from flightllm.dialect.generator.forms import added, match, part, substring, truncated, unit
from flightllm.dialect.generator.tables.shared import (
    NUMBERS,
    TEXTS,
    WIDTH_BUCKET,
    hashed,
    months_between,
    next_day,
)
from flightllm.functions.text_parts import ALL_MATCHES
from flightllm.functions.text_places import CAPITALS, PLACE_IN_TEXT
from flightllm.functions.variants import VARIANT_JSON, VARIANT_TEXT

_TYPE: Final = re.compile(
    r"string|int|bigint|double|float|boolean|date|timestamp|decimal(\(\d+(, *\d+)?\))?", re.IGNORECASE
)
"""The simple types of variant_get."""


def _shifted(sign: str) -> Rule:
    def rule(call: Call) -> str:
        if len(call.args) == 3 and not sign:
            return added(call, unit(call, 0), call.sql(1), call.sql(2))
        if len(call.args) != 2:
            call.refuse(f"write {call.name}(day, days)")
        count = call.sql(1)
        count = f"(-{count})" if sign else count
        return added(call, "day", count, f"CAST({call.sql(0)} AS DATE)")

    return rule


def _difference(call: Call) -> str:
    if len(call.args) == 2:
        return difference("DAY", call.sql(0), call.sql(1))
    name = unit(call, 0).upper()
    if name != "DAY":
        call.refuse("it counts whole elapsed units: write datediff(until, since) for days, and divide it")
    return difference(name, call.sql(2), call.sql(1))


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


def _sorted(call: Call) -> str:
    descends = False
    if len(call.args) > 1:
        written = call.sql(1).strip("()").lower()
        if written not in {"true", "false"}:
            call.refuse("write the order as TRUE or FALSE")
        descends = written == "false"
    order = "'DESC', 'NULLS LAST'" if descends else "'ASC', 'NULLS FIRST'"
    return f"array_sort({call.sql(0)}, {order})"


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


SPARK: Final[Table] = {
    **TEXTS,
    **NUMBERS,
    "ADD_MONTHS": form("CAST(CAST({0} AS DATE) + CAST({1} AS BIGINT) * INTERVAL '1 month' AS DATE)"),
    "BIN": no("write to_hex(x)"),
    **dict.fromkeys(("CHARINDEX", "LOCATE"), form("strpos({1}, {0})", f"{PLACE_IN_TEXT}({{1}}, {{0}}, {{2}}, 1)")),
    "CONTAINS": form("contains({0}, {1})"),
    "INSTR": form("strpos({0}, {1})"),
    **dict.fromkeys(("DATE_ADD", "DATEADD"), _shifted("")),
    "DATE_SUB": _shifted("-"),
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF"), _difference),
    **dict.fromkeys(("DATE_TRUNC", "TRUNC"), _truncated),
    "DAY": part("day"),
    "DAYNAME": form("to_char({0}, '%a')"),
    "DAYOFMONTH": part("day"),
    "DAYOFWEEK": form("CAST(date_part('dow', {0}) + 1 AS BIGINT)"),
    "DAYOFYEAR": part("doy"),
    "EQUAL_NULL": form("({0} IS NOT DISTINCT FROM {1})"),
    "GETDATE": form("CAST(now() AS TIMESTAMP)"),
    "GET_JSON_OBJECT": form("json_extract_string({0}, {1})"),
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
    "LOG": form("ln({0})", "log({0}, {1})"),
    "MAKE_DATE": form("make_date({0}, {1}, {2})"),
    "MINUTE": part("minute"),
    "MONTH": part("month"),
    "MONTHS_BETWEEN": months_between(8),
    "NEGATIVE": form("(-{0})"),
    "NEXT_DAY": next_day,
    "PMOD": form("((({0} % {1}) + {1}) % {1})"),
    "QUARTER": part("quarter"),
    "RAND": form("random()"),
    "REGEXP_COUNT": form("regexp_count({0}, {1})"),
    "REGEXP_EXTRACT": _extract,
    "REGEXP_EXTRACT_ALL": _all,
    **dict.fromkeys(("REGEXP_LIKE", "REGEXP", "RLIKE"), form("regexp_like({0}, {1})")),
    "REGEXP_REPLACE": form("regexp_replace({0}, {1}, {2}, 'g')"),
    "REGEXP_SUBSTR": lambda call: match(call, call.sql(0), group=0),
    "ROUND": form("round({0})", "round({0}, {1})"),
    "SECOND": form("CAST(trunc(date_part('second', {0})) AS BIGINT)"),
    "SHIFTLEFT": form("({0} << {1})"),
    "SHIFTRIGHT": form("({0} >> {1})"),
    "SHA2": hashed,
    "SORT_ARRAY": _sorted,
    "SPLIT_PART": form("split_part({0}, {1}, {2})"),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), substring),
    "SUBSTRING_INDEX": form("substring_index({0}, {1}, {2})"),
    "UNBASE64": form("decode({0}, 'base64pad')"),
    "UNHEX": form("decode({0}, 'hex')"),
    "UUID": form("uuid()"),
    **dict.fromkeys(("VARIANCE", "VAR_SAMP"), form("var_samp({0})")),
    "WEEKDAY": form("CAST(date_part('isodow', {0}) - 1 AS BIGINT)"),
    "WEEKOFYEAR": part("week"),
    "WIDTH_BUCKET": form(WIDTH_BUCKET),
    "YEAR": part("year"),
}
"""How each function is written. A class of sqlglot writes a function that the table does not have."""
