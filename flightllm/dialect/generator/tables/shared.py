"""Forms of functions that mean the same in several dialects."""

from typing import Final

from flightllm.dialect.generator.calls import Call, Rule, Table, form, same
from flightllm.functions.calendar_months import MONTHS_BETWEEN
from flightllm.functions.text_places import SOUND

_BITS: Final = (224, 256, 384, 512)


def hashed(call: Call) -> str:
    """Write SHA2(text, bits) as a text of hexadecimal digits."""
    bits = call.number(1) if len(call.args) > 1 else 256
    if bits == 0:
        bits = 256
    if bits not in _BITS:
        call.refuse("write the number of bits as 224, 256, 384 or 512")
    return f"encode(sha{bits}({call.sql(0)}), 'hex')"


TEXTS: Final[Table] = {
    **same("UPPER", "LOWER", "REVERSE", "REPEAT", "LPAD", "RPAD", "OCTET_LENGTH", "BIT_LENGTH", "TRANSLATE", "MD5"),
    "ASCII": form("ascii({0})"),
    **dict.fromkeys(("BASE64_ENCODE", "TO_BASE64", "BASE64"), form("encode({0}, 'base64pad')")),
    "BASE64_DECODE_STRING": form("CAST(decode({0}, 'base64pad') AS VARCHAR)"),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH", "LEN", "LENGTH"), form("CAST(length({0}) AS BIGINT)")),
    **dict.fromkeys(("CHR", "CHAR"), form("chr({0})")),
    **dict.fromkeys(("ENDSWITH", "ENDS_WITH"), form("ends_with({0}, {1})")),
    "HEX_DECODE_STRING": form("CAST(decode({0}, 'hex') AS VARCHAR)"),
    "HEX_ENCODE": form("upper(encode({0}, 'hex'))"),
    "LEFT": form("left({0}, greatest({1}, 0))"),
    "LTRIM": form("ltrim({0})", "ltrim({0}, {1})"),
    "MD5_HEX": form("md5({0})"),
    "REPLACE": form("replace({0}, {1}, '')", "replace({0}, {1}, {2})"),
    "RIGHT": form("right({0}, greatest({1}, 0))"),
    "RTRIM": form("rtrim({0})", "rtrim({0}, {1})"),
    "RTRIMMED_LENGTH": form("CAST(length(rtrim({0})) AS BIGINT)"),
    **dict.fromkeys(("SHA2", "SHA2_HEX"), hashed),
    "SOUNDEX": form(f"{SOUND}({{0}})"),
    "SPACE": form("repeat(' ', {0})"),
    **dict.fromkeys(("STARTSWITH", "STARTS_WITH"), form("starts_with({0}, {1})")),
    "UNICODE": form("ascii({0})"),
}
"""Functions of texts."""
NUMBERS: Final[Table] = {
    **same("ABS", "ACOS", "ASIN", "ATAN", "ATAN2", "COS", "COSH", "COT", "SIN", "SINH", "TAN", "TANH", "CBRT", "SQRT"),
    **same("EXP", "LN", "DEGREES", "RADIANS", "PI", "ACOSH", "ASINH", "ATANH", "FACTORIAL", "LOG10", "LOG2"),
    "BITAND": form("({0} & {1})"),
    "BITNOT": form("(-1 - {0})"),
    "BITOR": form("({0} | {1})"),
    "BITSHIFTLEFT": form("({0} << {1})"),
    "BITSHIFTRIGHT": form("({0} >> {1})"),
    "BITXOR": form("(({0} | {1}) - ({0} & {1}))"),
    **dict.fromkeys(("CEIL", "CEILING"), form("ceil({0})", "(ceil({0} * power(10, {1})) / power(10, {1}))")),
    "FLOOR": form("floor({0})", "(floor({0} * power(10, {1})) / power(10, {1}))"),
    "IFF": form("(CASE WHEN {0} THEN {1} ELSE {2} END)"),
    **dict.fromkeys(("IFNULL", "NVL"), form("coalesce({0}, {1})")),
    "MOD": form("({0} % {1})"),
    "NULLIF": form("nullif({0}, {1})"),
    "NULLIFZERO": form("nullif({0}, 0)"),
    "NVL2": form("(CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END)"),
    **dict.fromkeys(("POW", "POWER"), form("power({0}, {1})")),
    "SIGN": form("signum({0})"),
    "ZEROIFNULL": form("coalesce({0}, 0)"),
}
"""Functions of numbers and conditions."""
DAYS_FROM_PARTS: Final = (
    "(CAST(make_date({0}, 1, 1) + CAST({1} - 1 AS BIGINT) * INTERVAL '1 month' AS DATE) + CAST({2} - 1 AS BIGINT))"
)
"""A date by its year, month and day; a month and a day beyond their year and month count on."""
TIMESTAMP_FROM_PARTS: Final = (
    "(CAST(make_date({0}, {1}, {2}) AS TIMESTAMP) + CAST({3} AS BIGINT) * INTERVAL '1 hour'"
    " + CAST({4} AS BIGINT) * INTERVAL '1 minute'"
    " + CAST(round(CAST({5} AS DOUBLE) * 1000000) AS BIGINT) * INTERVAL '1 microsecond')"
)
WIDTH_BUCKET: Final = (
    "(CASE WHEN {0} < {1} THEN 0 WHEN {0} >= {2} THEN {3} + 1"
    " ELSE CAST(floor(CAST({0} - {1} AS DOUBLE) * {3} / ({2} - {1})) AS BIGINT) + 1 END)"
)
_TRUE, _FALSE = "('true', 't', 'yes', 'y', 'on', '1')", "('false', 'f', 'no', 'n', 'off', '0')"
_DAYS: Final = ("su", "mo", "tu", "we", "th", "fr", "sa")


def true_or_false(cast: str) -> Rule:
    """Return a rule that reads a text or a number as true or false."""
    return form(
        f"(CASE WHEN lower(CAST({{0}} AS VARCHAR)) IN {_TRUE} THEN true"
        f" WHEN lower(CAST({{0}} AS VARCHAR)) IN {_FALSE} THEN false"
        f" ELSE {cast}(CASE WHEN lower(CAST({{0}} AS VARCHAR)) IN {_TRUE} THEN NULL"
        f" WHEN lower(CAST({{0}} AS VARCHAR)) IN {_FALSE} THEN NULL"
        " ELSE CAST({0} AS VARCHAR) END AS DOUBLE) <> 0 END)"
    )


def months_between(digits: int) -> Rule:
    """Return a rule for the months between two times, with a fraction of 31 days."""
    ends = ", ".join(f"CAST({{{place}}} AS TIMESTAMP(6))" for place in (0, 1))
    return form(
        f"round({MONTHS_BETWEEN}({ends}), {digits})",
        f"(CASE WHEN {{2}} THEN round({MONTHS_BETWEEN}({ends}), {digits}) ELSE {MONTHS_BETWEEN}({ends}) END)",
    )


def _weekday(call: Call) -> int:
    name = (call.text(1) or "").strip().lower()
    if len(call.args) != 2 or name[:2] not in _DAYS:
        call.refuse(f"write the name of a day as a text literal, as in {call.name}(day, 'monday')")
    return _DAYS.index(name[:2])


def next_day(call: Call) -> str:
    """Write the next such day of a week after a date."""
    day, wanted = f"CAST({call.sql(0)} AS DATE)", _weekday(call)
    return f"({day} + CAST((6 + {wanted} - date_part('dow', {day})) % 7 + 1 AS BIGINT))"


def previous_day(call: Call) -> str:
    """Write the last such day of a week before a date."""
    day, wanted = f"CAST({call.sql(0)} AS DATE)", _weekday(call)
    return f"({day} - CAST((date_part('dow', {day}) + 6 - {wanted}) % 7 + 1 AS BIGINT))"


def decoded(call: Call) -> str:
    """Write DECODE(value, a, x, b, y, other), in which NULL equals NULL."""
    if len(call.args) < 3:
        call.refuse("write DECODE(value, search, result, other)")
    value, rest = call.sql(0), [call.sql(place) for place in range(1, len(call.args))]
    cases = "".join(
        f" WHEN {value} IS NOT DISTINCT FROM {rest[place]} THEN {rest[place + 1]}"
        for place in range(0, len(rest) - 1, 2)
    )
    return f"(CASE{cases}{f' ELSE {rest[-1]}' if len(rest) % 2 else ''} END)"
