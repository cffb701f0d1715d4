"""Write Snowflake's functions."""

import re
from typing import Final

from flightllm.dialect.formats import from_letters
from flightllm.dialect.generator.automatic_times import as_time
from flightllm.dialect.generator.calls import Call, Rule, Table, form, named, no
from flightllm.dialect.generator.dates import difference, in_units
from flightllm.dialect.generator.forms import (
    added,
    flags_of,
    joined,
    known,
    match,
    matches_whole,
    part,
    substring,
    text_of,
    truncated,
    unit,
)
from flightllm.dialect.generator.tables.shared import (
    DAYS_FROM_PARTS,
    NUMBERS,
    TEXTS,
    WIDTH_BUCKET,
    decoded,
    months_between,
    next_day,
    previous_day,
    true_or_false,
)
from flightllm.dialect.generator.tables.snowflake_values import VALUES
from flightllm.errors import SqlError
from flightllm.functions.automatic_times import check_format
from flightllm.functions.list_moments import KURTOSIS, SKEWNESS
from flightllm.functions.text_parts import ALL_MATCHES, NTH_REPLACED, SPLIT_BY_PATTERN
from flightllm.functions.text_places import CAPITALS, PLACE_IN_TEXT, WORD_OF_TEXT
from flightllm.functions.text_similarity import JARO_WINKLER
from flightllm.sql.literals import text_literal

_NUMBER_FORMAT: Final = re.compile(r"\$?(?P<whole>[09]{1,3}(?:,[09]{3})+|[09]+)(?:\.(?P<fraction>[09]+))?")
"""The formats of numbers that are read."""
_DELIMITERS: Final = ' \t\n\r\f\v!?@"^#$&~_,.:;+-*%/|\\[](){}<>'
"""The letters after which INITCAP writes a capital."""
_PARTS: Final = {
    **dict.fromkeys(("dayofweek", "weekday", "dow", "dw"), "dow"),
    **dict.fromkeys(("dayofweekiso", "weekday_iso", "dow_iso", "dw_iso", "dayofweek_iso"), "isodow"),
    **dict.fromkeys(("dayofyear", "yearday", "doy", "dy"), "doy"),
    **dict.fromkeys(("weekiso", "week_iso", "weekofyeariso", "weekofyear_iso"), "week"),
    **dict.fromkeys(("yearofweek", "yearofweekiso"), "isoyear"),
    **dict.fromkeys(("epoch_second", "epoch", "epoch_seconds"), "epoch"),
}
"""Parts of times that are not units, by Snowflake's words."""
_EPOCHS: Final = {
    f"epoch_{name}{ending}": name.upper()
    for name in ("millisecond", "microsecond", "nanosecond")
    for ending in ("", "s")
}
"""The units that a part of a time counts from 1970, by Snowflake's words."""


def date_part(call: Call) -> str:
    """Write `DATE_PART(dayofweek, t)`; the part is a word or a text literal."""
    written = (call.literal(0) or "").lower()
    if written in _EPOCHS:
        return in_units(_EPOCHS[written], call.sql(1))
    name = _PARTS.get(written) or unit(call, 0)
    return f"CAST(trunc(date_part('{name}', {call.sql(1)})) AS BIGINT)"


def _add(call: Call) -> str:
    return added(call, unit(call, 0), _count(call, 1), call.sql(2))


def _count(call: Call, place: int) -> str:
    """Return a number of units as a whole number: Snowflake rounds it, and reads a text as a number."""
    from sqlglot import exp

    value = call.args[place]
    sign, inner = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if isinstance(inner, exp.Literal) and inner.is_string:
        return f"CAST(round(CAST('{sign}{inner.name}' AS DOUBLE)) AS BIGINT)"
    return call.sql(place) if call.number(place) is not None else f"CAST(round({call.sql(place)}) AS BIGINT)"


def _months_added(call: Call) -> str:
    """Write a date or a time plus months: the last day of a month becomes the last day of the other month."""
    if len(call.args) != 2:
        call.refuse("write ADD_MONTHS(day, months)")
    day = call.sql(0)
    moved = added(call, "month", _count(call, 1), day)
    end = f"date_trunc('month', CAST({moved} AS DATE)) + INTERVAL '1 month' - INTERVAL '1 day'"
    short = f"CAST(date_part('day', {end}) - date_part('day', {moved}) AS BIGINT)"
    is_last = f"date_part('day', CAST({day} AS DATE) + 1) = 1"
    return added(call, "day", f"(CASE WHEN {is_last} THEN {short} ELSE 0 END)", moved)


def _difference(call: Call) -> str:
    return difference(unit(call, 0).upper(), call.sql(2), call.sql(1))


def _truncated(call: Call) -> str:
    """Write DATE_TRUNC(unit, time), TRUNC(time, unit) or TRUNC(number, digits)."""
    if call.name == "DATE_TRUNC":
        return truncated(unit(call, 0), call.sql(1))
    if call.text(1) is not None:
        return truncated(unit(call, 1), call.sql(0))
    return f"trunc({', '.join(call.sql(place) for place in range(len(call.args)))})"


def _substring_of_pattern(call: Call) -> str:
    counts = [call.number(place) if len(call.args) > place else 1 for place in (2, 3)]
    if None in counts:
        call.refuse("write the position and the occurrence as numbers")
    flags, group = call.text(4) or "", call.number(5)
    chosen = 1 if "e" in flags and group is None else group or 0
    start, occurrence = (one or 0 for one in counts)
    return match(call, call.sql(0), start=start, occurrence=occurrence, flags=flags_of(call, 4), group=chosen)


def _replaced(call: Call) -> str:
    """Write REGEXP_REPLACE, which replaces all matches."""
    if len(call.args) > 3 and (call.number(3) != 1 or call.number(4) not in {None, 0}):
        return _replaced_once(call)
    new = call.sql(2) if len(call.args) > 2 else "''"
    return f"regexp_replace({call.sql(0)}, {call.sql(1)}, {new}, 'g{flags_of(call, 5)}')"


def _replaced_once(call: Call) -> str:
    start, occurrence = call.number(3), call.number(4) if len(call.args) > 4 else 0
    if start is None or occurrence is None or start < 1 or occurrence < 0:
        call.refuse("write the position as a number from 1, and the occurrence as a number from 0")
    flags = flags_of(call, 5)
    pattern = f"'(?{flags})' || {call.sql(1)}" if flags else call.sql(1)
    return f"{NTH_REPLACED}({call.sql(0)}, {pattern}, {call.sql(2)}, {start}, {occurrence})"


def _counted(call: Call) -> str:
    start = call.sql(2) if len(call.args) > 2 else "1"
    return f"regexp_count({call.sql(0)}, {call.sql(1)}, {start}, '{flags_of(call, 3)}')"


def _place_of_match(call: Call) -> str:
    if len(call.args) > 4 and call.number(4) != 0:
        return _place_after_match(call)
    if len(call.args) > 5:
        call.refuse("write REGEXP_INSTR(text, pattern, position, occurrence)")
    args = [call.sql(place) for place in range(min(len(call.args), 4))]
    return f"CAST(regexp_instr({', '.join(args)}) AS BIGINT)"


def _place_after_match(call: Call) -> str:
    start, occurrence = call.number(2), call.number(3)
    if start is None or occurrence is None or call.number(4) != 1 or len(call.args) > 5:
        call.refuse("write the position and the occurrence as numbers, as in REGEXP_INSTR(text, pattern, 1, 1, 1)")
    found = match(call, call.sql(0), start=start, occurrence=occurrence, group=0)
    place = f"CAST(regexp_instr({call.sql(0)}, {call.sql(1)}, {start}, {occurrence}) AS BIGINT)"
    return f"(CASE WHEN {place} = 0 THEN 0 ELSE {place} + CAST(length({found}) AS BIGINT) END)"


def _exact(call: Call, place: int) -> str:
    """Return an argument; a literal with a fraction is a decimal, as in Snowflake."""
    from sqlglot import exp

    value = call.args[place]
    inner = value.this if isinstance(value, exp.Neg) else value
    whole, dot, fraction = str(inner.name).partition(".")
    is_decimal = isinstance(inner, exp.Literal) and not inner.is_string and dot and (whole + fraction).isdecimal()
    if not is_decimal or len(whole + fraction) > 38:
        return call.sql(place)
    return f"CAST({call.sql(place)} AS DECIMAL({max(len(whole + fraction), 1)}, {len(fraction)}))"


def _round(call: Call) -> str:
    if len(call.args) > 2 and call.text(2) != "HALF_AWAY_FROM_ZERO":
        call.refuse("it rounds halves away from zero here: write ROUND(number, digits)")
    rest = f", {call.sql(1)}" if len(call.args) > 1 else ""
    return f"round({_exact(call, 0)}{rest})"


def _number(cast: str) -> Rule:
    """Return a rule for TO_NUMBER(value, digits, scale)."""

    def rule(call: Call) -> str:
        at = 1 if call.text(1) is None else 2
        digits = call.number(at) if len(call.args) > at else 38
        scale = call.number(at + 1) if len(call.args) > at + 1 else 0
        if digits is None or scale is None or not 0 <= scale <= digits <= 38:
            call.refuse("write the digits and the scale as numbers, as in TO_NUMBER(text, 12, 2)")
        value = call.sql(0) if at == 1 else _unformatted(call)
        inner = f"{cast}({value} AS DECIMAL(38, {min(scale + 10, 38)}))"
        return f"CAST(round({inner}, {scale}) AS DECIMAL({digits}, {scale}))"

    return rule


def _unformatted(call: Call) -> str:
    """Write the text of a number without the signs of its format; a text of another form is one that no cast reads."""
    written = call.text(1) or ""
    found = _NUMBER_FORMAT.fullmatch(written)
    if found is None:
        call.refuse("a format has 9, 0, commas, a point and $: write TO_NUMBER(replace(text, ' USD', ''), 38, 2)")
    first, *groups = found["whole"].split(",")
    whole = f"[0-9]{{0,{len(first)}}}"
    if groups:
        whole = (
            f"([0-9]{{1,{len(first)}}}(,[0-9]{{3}}){{{len(groups)}}}|[0-9]{{0,3}}(,[0-9]{{3}}){{0,{len(groups) - 1}}})"
        )
    fraction = rf"(\.[0-9]{{0,{len(found['fraction'])}}})?" if found["fraction"] else ""
    dollar = r"\$ *" if written.startswith("$") else ""
    text = f"CAST({call.sql(0)} AS VARCHAR)"
    other = text_literal(f" is not of the format {written}: write another format, or TRY_TO_NUMBER")
    return (
        f"(CASE WHEN regexp_like({text}, '^ *-? *{dollar}{whole}{fraction} *$')"
        f" THEN regexp_replace({text}, '[$, ]', '', 'g') ELSE {text} || {other} END)"
    )


def _text(call: Call) -> str:
    """Write TO_VARCHAR(value), or TO_VARCHAR(time, format)."""
    if len(call.args) == 1:
        return text_of(call.sql(0), call.dialect)
    written = call.text(1)
    if written is None or len(call.args) > 2:
        call.refuse("its format must be a text literal, as in TO_VARCHAR(day, 'YYYY-MM-DD')")
    if not any(letter in "YDHSFymdhsf" for letter in written) and "MI" not in written.upper() and "M" not in written:
        call.refuse("a format of numbers is not written: write TO_VARCHAR(ROUND(number, 2))")
    return f"to_char({call.sql(0)}, {_format(written)})"


def _format(written: str) -> str:
    upper = written.upper() if not any(letter in written for letter in 'T"') else written
    text = upper.replace("MMMM", "FMMonth").replace("MON", "Mon").replace("DY", "Dy")
    return text_literal(from_letters(text))


def _time(kind: str, *, tries: bool = False) -> Rule:
    """Return a rule for TO_DATE(text, format) and its like, by the kind of their times."""

    def rule(call: Call) -> str:
        written = call.text(1) or ""
        digits_after = call.number(1)
        if kind == "ntz" and not tries and digits_after is not None and digits_after in _SCALES:
            value = f"CAST({call.sql(0)} AS BIGINT)"
            return f"CAST(arrow_cast({value}, '{_SCALES[digits_after]}') AS TIMESTAMP)"
        if len(call.args) > 1 and not written:
            call.refuse(f"its format must be a text literal, as in {call.name}(text, 'YYYY-MM-DD')")
        if len(call.args) > 2:
            call.refuse(f"write {call.name}(text, 'YYYY-MM-DD')")
        format_ = "" if written.upper() == "AUTO" else written
        try:
            check_format(format_)
        except SqlError as error:
            call.refuse(str(error))
        return as_time(call.generator, call.args[0], kind, tries=tries, format_=format_)

    return rule


def _from_parts(call: Call) -> str:
    if len(call.args) == 2:
        day, clock = f"CAST({call.sql(0)} AS DATE)", f"CAST({call.sql(1)} AS TIME)"
        return f"CAST(CAST({day} AS VARCHAR) || ' ' || CAST({clock} AS VARCHAR) AS TIMESTAMP)"
    if not 6 <= len(call.args) <= 7:
        call.refuse("write TIMESTAMP_FROM_PARTS(year, month, day, hour, minute, second)")
    day = DAYS_FROM_PARTS.replace("{0}", call.sql(0)).replace("{1}", call.sql(1)).replace("{2}", call.sql(2))
    times = [(3, "hour"), (4, "minute"), (5, "second"), (6, "nanosecond")]
    more = [
        f" + CAST({call.sql(place)} AS BIGINT) * INTERVAL '1 {name}'" for place, name in times if place < len(call.args)
    ]
    return f"(CAST({day} AS TIMESTAMP){''.join(more)})"


def _slice(call: Call) -> str:
    size, name, end = call.number(1), unit(call, 2), (call.text(3) or "START").upper()
    if size is None or size < 1 or name not in _SLICED or end not in {"START", "END"}:
        call.refuse("write a number of units but weeks, as in TIME_SLICE(t, 15, 'MINUTE')")
    time = call.sql(0)
    if name in {"second", "minute", "hour"}:
        clock = as_time(call.generator, call.args[0], "ntz", tries=False)
        begin = f"date_bin(INTERVAL '{size} {name}', {clock})"
    else:
        count, each, length = _SLICED[name]
        since = f"CAST({count.format(time)} AS BIGINT)"
        over = f"(({since} % {size * length} + {size * length}) % {size * length})"
        begin = added(call, each, f"(-{over})", truncated(each, time))
    return added(call, name, str(size), begin) if end == "END" else begin


def _of_pattern(call: Call) -> str:
    if len(call.args) > 2:
        call.refuse("write REGEXP_SUBSTR_ALL(text, pattern)")
    return f"{ALL_MATCHES}({call.sql(0)}, {call.sql(1)}, 0)"


def _words(call: Call) -> str:
    between = " " if len(call.args) == 1 else call.text(1)
    if not between:
        call.refuse("write the delimiters as a text literal")
    pattern = text_literal(f"[{re.escape(between)}]")
    return f"array_remove_all({SPLIT_BY_PATTERN}({call.sql(0)}, {pattern}), '')"


def _capitals(call: Call) -> str:
    between = call.sql(1) if len(call.args) > 1 else text_literal(_DELIMITERS)
    return f"{CAPITALS}({call.sql(0)}, {between})"


def _variance(call: Call) -> str:
    return f"var_samp({call.sql(0)})"


def _uniform(call: Call) -> str:
    """Write UNIFORM(1, 6, RANDOM()): both ends belong to whole numbers, and no end to others."""
    from sqlglot import exp

    source = call.args[2] if len(call.args) == 3 else None
    if source is None or str(source.args.get("this")).upper() != "RANDOM" or source.expressions:
        call.refuse("write UNIFORM(1, 6, RANDOM())")
    least, most = call.number(0), call.number(1)
    if least is not None and most is not None:
        return f"(CAST(floor(random() * {most - least + 1}) AS BIGINT) + {least})"
    ends = [one.this if isinstance(one, exp.Neg) else one for one in call.args[:2]]
    kinds = [one.to.this.name if isinstance(one, exp.Cast) else "." * ("." in one.name) for one in ends]
    if not any(one in {"FLOAT", "DOUBLE", "."} for one in kinds):
        call.refuse("write the ends as numbers, as in UNIFORM(1, 6, RANDOM()) or UNIFORM(0::FLOAT, 1::FLOAT, RANDOM())")
    low, high = (f"CAST({call.sql(place)} AS DOUBLE)" for place in (0, 1))
    return f"({low} + random() * ({high} - {low}))"


_RANDOM: Final = (
    "(CAST(floor(random() * 4294967296) - 2147483648 AS BIGINT) * 4294967296"
    " + CAST(floor(random() * 4294967296) AS BIGINT))"
)
"""A random whole number of 64 bits, made of two halves: one random double has only 53 bits."""
_MONTHS: Final = "(date_part('year', {0}) - 1970) * 12 + date_part('month', {0}) - 1"
_SLICED: Final = {
    **dict.fromkeys(("second", "minute", "hour"), ("", "", 0)),
    "day": ("CAST({0} AS DATE) - DATE '1970-01-01'", "day", 1),
    "month": (_MONTHS, "month", 1),
    "quarter": (_MONTHS, "month", 3),
    "year": (_MONTHS, "month", 12),
}
"""For each unit of TIME_SLICE, the number of smaller units since 1970, the smaller unit, and how many it has."""
_SCALES: Final = {
    0: "Timestamp(Second, None)",
    3: "Timestamp(Millisecond, None)",
    6: "Timestamp(Microsecond, None)",
    9: "Timestamp(Nanosecond, None)",
}
"""The types of times that numbers count in, by their digits after the second."""
SNOWFLAKE: Final[Table] = {
    **TEXTS,
    **NUMBERS,
    **VALUES,
    "ADD_MONTHS": _months_added,
    **dict.fromkeys(("APPROX_PERCENTILE", "PERCENTILE_APPROX"), form("approx_percentile_cont({0}, {1})")),
    "BOOLAND": form("((round({0}) <> 0) AND (round({1}) <> 0))"),
    "BOOLNOT": form("(round({0}) = 0)"),
    "BOOLOR": form("((round({0}) <> 0) OR (round({1}) <> 0))"),
    "BOOLXOR": form("((round({0}) <> 0) <> (round({1}) <> 0))"),
    "CHARINDEX": form("CAST(strpos({1}, {0}) AS BIGINT)", f"{PLACE_IN_TEXT}({{1}}, {{0}}, {{2}}, 1)"),
    "CONCAT": joined,
    "CONCAT_WS": known("concat_ws({*})"),
    "CONTAINS": form("contains({0}, {1})"),
    "CONVERT_TIMEZONE": form(
        advice="write t AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' in the default dialect",
    ),
    **dict.fromkeys(("DATEADD", "TIMEADD", "TIMESTAMPADD"), _add),
    **dict.fromkeys(("DATEDIFF", "TIMEDIFF", "TIMESTAMPDIFF"), _difference),
    **dict.fromkeys(("DATE_FROM_PARTS", "DATEFROMPARTS"), form(DAYS_FROM_PARTS)),
    "DATE_PART": date_part,
    "DATE_TRUNC": _truncated,
    "DAY": part("day"),
    "DAYNAME": form("to_char({0}, '%a')"),
    "DAYOFMONTH": part("day"),
    "DAYOFWEEK": part("dow"),
    **dict.fromkeys(("DAYOFWEEKISO", "DAYOFWEEK_ISO"), part("isodow")),
    "DAYOFYEAR": part("doy"),
    "DECODE": decoded,
    "DIV0": form(
        "(CASE WHEN {1} = 0 THEN CASE WHEN {0} IS NOT NULL THEN 0 END ELSE CAST({0} AS DOUBLE) / nullif({1}, 0) END)"
    ),
    "DIV0NULL": form("(CASE WHEN coalesce({1}, 0) = 0 THEN 0 ELSE CAST({0} AS DOUBLE) / nullif({1}, 0) END)"),
    "EDITDISTANCE": form("levenshtein({0}, {1})"),
    "EQUAL_NULL": form("({0} IS NOT DISTINCT FROM {1})"),
    "GETDATE": form("CAST(now() AS TIMESTAMP)"),
    "GREATEST": known("greatest({*})"),
    "GREATEST_IGNORE_NULLS": form("greatest({*})"),
    "HAVERSINE": form(
        "(2 * 6371 * asin(sqrt(power(sin(radians({2} - {0}) / 2), 2) + cos(radians({0})) * cos(radians({2}))"
        " * power(sin(radians({3} - {1}) / 2), 2))))"
    ),
    "HOUR": part("hour"),
    "INITCAP": _capitals,
    "INSERT": form("(substr({0}, 1, {1} - 1) || {3} || substr({0}, {1} + {2}))"),
    "JAROWINKLER_SIMILARITY": form(f"CAST(floor(100 * {JARO_WINKLER}(lower({{0}}), lower({{1}})) + 1e-9) AS BIGINT)"),
    "KURTOSIS": form(f"{KURTOSIS}(array_agg(CAST({{0}} AS DOUBLE)))"),
    "LEAST": known("least({*})"),
    "LEAST_IGNORE_NULLS": form("least({*})"),
    "LOG": form("log({0}, {1})"),
    "MINUTE": part("minute"),
    "MONTH": part("month"),
    "MONTHNAME": form("to_char({0}, '%b')"),
    "MONTHS_BETWEEN": months_between(6),
    "NEXT_DAY": next_day,
    "PERCENTILE_DISC": named("percentile_disc"),
    "PREVIOUS_DAY": previous_day,
    "QUARTER": part("quarter"),
    "RANDOM": form(_RANDOM, advice="no seed is read: write RANDOM()"),
    "REGEXP_COUNT": _counted,
    "REGEXP_INSTR": _place_of_match,
    **dict.fromkeys(("REGEXP_LIKE", "RLIKE"), matches_whole),
    "REGEXP_REPLACE": _replaced,
    "REGEXP_SUBSTR": _substring_of_pattern,
    "REGEXP_SUBSTR_ALL": _of_pattern,
    "ROUND": _round,
    "SECOND": form("CAST(trunc(date_part('second', {0})) AS BIGINT)"),
    **dict.fromkeys(("SHA1", "SHA1_HEX"), no("write SHA2(text, 256)")),
    "CONDITIONAL_CHANGE_EVENT": no(
        "write lag(a) OVER (ORDER BY b) AS c in a subquery, and sum(CASE WHEN a <> c THEN 1 ELSE 0 END) OVER"
        " (ORDER BY b)"
    ),
    **dict.fromkeys(
        ("LAST_QUERY_ID", "RESULT_SCAN"),
        no("no results are kept: write CREATE TEMP TABLE t AS SELECT …, and read t"),
    ),
    "SKEW": form(f"{SKEWNESS}(array_agg(CAST({{0}} AS DOUBLE)))"),
    "SPLIT_PART": form("split_part({0}, {1}, coalesce(nullif(CAST({2} AS BIGINT), 0), 1))"),
    "SQUARE": form("power({0}, 2)"),
    "STRTOK": form(
        f"{WORD_OF_TEXT}({{0}}, ' ', 1)", f"{WORD_OF_TEXT}({{0}}, {{1}}, 1)", f"{WORD_OF_TEXT}({{0}}, {{1}}, {{2}})"
    ),
    "STRTOK_TO_ARRAY": _words,
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), substring),
    **dict.fromkeys(("SYSDATE", "SYSTIMESTAMP"), form("CAST(now() AS TIMESTAMP)")),
    "TIME_FROM_PARTS": form("make_time({0}, {1}, {2})"),
    "TIME_SLICE": _slice,
    **dict.fromkeys(("TIMESTAMP_FROM_PARTS", "TIMESTAMPFROMPARTS", "TIMESTAMP_NTZ_FROM_PARTS"), _from_parts),
    "TO_BOOLEAN": true_or_false("CAST"),
    **dict.fromkeys(("TO_CHAR", "TO_VARCHAR"), _text),
    **dict.fromkeys(("TO_DATE", "DATE"), _time("date")),
    **dict.fromkeys(("TO_DECIMAL", "TO_NUMBER", "TO_NUMERIC"), _number("CAST")),
    "TO_DOUBLE": form("CAST({0} AS DOUBLE)"),
    "TO_TIME": form("CAST({0} AS TIME)"),
    **dict.fromkeys(("TO_TIMESTAMP", "TO_TIMESTAMP_NTZ"), _time("ntz")),
    "TO_TIMESTAMP_LTZ": _time("ltz"),
    "TO_TIMESTAMP_TZ": _time("tz"),
    **dict.fromkeys(("TRUNC", "TRUNCATE"), _truncated),
    "TRY_BASE64_DECODE_STRING": no("write BASE64_DECODE_STRING(text)"),
    "TRY_HEX_DECODE_STRING": no("write HEX_DECODE_STRING(text)"),
    "TRY_TO_BOOLEAN": true_or_false("TRY_CAST"),
    "TRY_TO_DATE": _time("date", tries=True),
    **dict.fromkeys(("TRY_TO_DECIMAL", "TRY_TO_NUMBER", "TRY_TO_NUMERIC"), _number("TRY_CAST")),
    "TRY_TO_DOUBLE": form("TRY_CAST({0} AS DOUBLE)"),
    "TRY_TO_TIME": form("TRY_CAST({0} AS TIME)"),
    **dict.fromkeys(("TRY_TO_TIMESTAMP", "TRY_TO_TIMESTAMP_NTZ"), _time("ntz", tries=True)),
    "TRY_TO_TIMESTAMP_LTZ": _time("ltz", tries=True),
    "TRY_TO_TIMESTAMP_TZ": _time("tz", tries=True),
    "UNIFORM": _uniform,
    "UUID_STRING": form("uuid()"),
    "VECTOR_COSINE_SIMILARITY": form("(1 - cosine_distance({0}, {1}))"),
    "VECTOR_INNER_PRODUCT": form("inner_product({0}, {1})"),
    "VECTOR_L2_DISTANCE": form("array_distance({0}, {1})"),
    **dict.fromkeys(("WEEK", "WEEKISO", "WEEKOFYEAR"), part("week")),
    **dict.fromkeys(("VARIANCE", "VAR_SAMP", "VARIANCE_SAMP"), _variance),
    "WIDTH_BUCKET": form(WIDTH_BUCKET),
    "YEAR": part("year"),
    **dict.fromkeys(("YEAROFWEEK", "YEAROFWEEKISO"), part("isoyear")),
}
"""How each function is written. A class of sqlglot writes a function that the table does not have."""
