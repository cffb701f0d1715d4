"""Write the functions of PostgreSQL that the server has in another form."""

from typing import Final

from flightllm.dialect.formats import from_letters
from flightllm.dialect.generator.calls import Call, Rule, Table, form, named, no, same
from flightllm.dialect.generator.forms import flags_of, match
from flightllm.dialect.generator.tables.shared import TIMESTAMP_FROM_PARTS
from flightllm.functions.text_parts import MATCH_ROWS, SPLIT_BY_PATTERN
from flightllm.functions.variant_objects import OBJECT_NAMES
from flightllm.sql.literals import text_literal


def _read(kind: str) -> Rule:
    """Return a rule for TO_DATE(text, format) and TO_TIMESTAMP(text, format)."""

    def rule(call: Call) -> str:
        if len(call.args) == 1 and kind == "TIMESTAMPTZ":
            return f"to_timestamp({call.sql(0)})"
        written = call.text(1)
        if written is None:
            call.refuse(f"its format must be a text literal: write {call.name}(text, 'YYYY-MM-DD')")
        return f"CAST(to_timestamp({call.sql(0)}, {text_literal(from_letters(written))}) AS {kind})"

    return rule


def _nth_match(call: Call) -> str:
    """Write `regexp_substr(text, pattern, start, n, flags, group)`."""
    places = [call.number(place) if len(call.args) > place else 1 for place in (2, 3)]
    group = call.number(5) if len(call.args) > 5 else 0
    if None in places or group is None:
        call.refuse("write its numbers as literals")
    start, occurrence = (int(place or 1) for place in places)
    return match(call, call.sql(0), start=start, occurrence=occurrence, flags=flags_of(call, 4), group=int(group))


def _match_rows(call: Call) -> str:
    """Write the rows of `regexp_matches`: the groups of the first match, or with the flag `g` those of all matches."""
    flags = "" if len(call.args) < 3 else call.text(2)
    if flags is None or set(flags) - set("gi"):
        call.refuse("write its flags as a text literal with the letters g and i")
    pattern = f"'(?i)' || {call.sql(1)}" if "i" in flags else call.sql(1)
    return f"unnest({MATCH_ROWS}({call.sql(0)}, {pattern}, {'true' if 'g' in flags else 'false'}))"


def _truncated(call: Call) -> str:
    """Write `date_trunc(unit, time, zone)`, which truncates in the zone."""
    if (call.text(0) or "").lower() in _LONG:
        call.refuse(f"write make_date(year, 1, 1), with the first year of the {call.text(0)}")
    if len(call.args) < 3:
        return f"date_trunc({call.sql(0)}, {call.sql(1)})"
    zone = call.sql(2)
    return f"(date_trunc({call.sql(0)}, {call.sql(1)} AT TIME ZONE {zone}) AT TIME ZONE {zone})"


def _made_time(call: Call) -> str:
    """Write `make_time(hour, minute, second)`, whose seconds have a fraction."""
    hour, minute, second = (call.sql(place) for place in range(3))
    return f"CAST({TIMESTAMP_FROM_PARTS.format(1970, 1, 1, hour, minute, second)} AS TIME)"


def _scale(call: Call) -> str:
    """Write `scale(x)`: the digits after the point; a literal loses its last zeros here."""
    written = call.literal(0)
    if written is not None and call.text(0) is None and written[:1].isdigit():
        return str(len(written.partition(".")[2]))
    return f"CAST(length(split_part(CAST({call.sql(0)} AS VARCHAR), '.', 2)) AS INT)"


def _converted(kind: str) -> Rule:
    """Return a rule for the text of bytes, or the bytes of a text, in UTF-8."""

    def rule(call: Call) -> str:
        if (call.text(1) or "").lower().replace("-", "") != "utf8":
            call.refuse(f"texts are UTF-8 here: write {call.name.lower()}(value, 'UTF8')")
        return f"arrow_cast({call.sql(0)}, '{kind}')"

    return rule


_LONG: Final = ("decade", "century", "millennium")
"""Units that DataFusion does not truncate to."""
POSTGRES: Final[Table] = {
    "ARRAY_LENGTH": form("CAST(array_length({0}, {1}) AS BIGINT)"),
    "ARRAY_LOWER": form("(CASE WHEN array_length({0}, {1}) > 0 THEN 1 END)"),
    "ARRAY_UPPER": form("CAST(array_length({0}, {1}) AS BIGINT)"),
    "BIT_COUNT": no("write length(replace(bits, '0', '')) of a text of bits"),
    "CARDINALITY": form("CAST(cardinality({0}) AS BIGINT)"),
    "DATE": form("CAST({0} AS DATE)"),
    **same("DECODE", "DATE_DIFF", "DATEDIFF", "MAX_BY", "MIN_BY", "ARG_MAX", "ARG_MIN"),
    "DATE_TRUNC": _truncated,
    "DIV": form("trunc({0} / {1})"),
    "EVERY": named("bool_and"),
    "INITCAP": named("initcap"),
    **same("JSON_TYPEOF", "JSONB_TYPEOF", "JSON_AGG", "JSONB_AGG", "JSON_OBJECT_AGG", "JSONB_OBJECT_AGG"),
    **dict.fromkeys(("JSONB_PATH_EXISTS", "JSONB_PATH_MATCH"), no("write (j #> '{a,0}') IS NOT NULL")),
    **dict.fromkeys(("JSONB_PATH_QUERY_FIRST", "JSONB_PATH_QUERY_ARRAY"), no("write j #> '{a,0}'")),
    "JSONB_PATH_QUERY": no("write jsonb_array_elements(j #> '{a}')"),
    "JSON_OBJECT_KEYS": form(f"unnest({OBJECT_NAMES}({{0}}))"),
    "JSONB_INSERT": no("write jsonb_set(j, '{a}', value)"),
    "GET_BYTE": no("write substr(encode(value, 'hex'), 1, 2)"),
    **dict.fromkeys(("POINT", "BOX", "CIRCLE", "LSEG", "POLYGON"), no("keep x and y in columns, and write their sums")),
    **dict.fromkeys(("HOST", "MASKLEN", "NETMASK", "BROADCAST"), no("write split_part(text, '/', 1)")),
    "HASHTEXT": no("write md5(text)"),
    "MIN_SCALE": form("CAST(length(rtrim(split_part(CAST({0} AS VARCHAR), '.', 2), '0')) AS INT)"),
    "SCALE": _scale,
    "TRIM_SCALE": no("write CAST(value AS DOUBLE PRECISION)"),
    "TAND": no("write tan(radians(value))"),
    "UNISTR": no("write chr(65)"),
    "PG_TYPEOF": no("write typeof(value)"),
    "CURRENT_SETTING": no("write SHOW name, as in SHOW server_version"),
    "PG_SLEEP": no("wait in a client, and write the next statement then"),
    "SETSEED": no("write md5(id::text) to order the rows in a mixed way that is the same in each run"),
    **dict.fromkeys(
        ("TO_TSVECTOR", "TO_TSQUERY", "PLAINTO_TSQUERY", "PHRASETO_TSQUERY", "WEBSEARCH_TO_TSQUERY", "TS_HEADLINE"),
        no("write text ILIKE '%word%'"),
    ),
    **dict.fromkeys(("TS_RANK", "TS_RANK_CD"), no("write ai_score('How well does it fit?', text)")),
    **dict.fromkeys(
        ("INT4RANGE", "INT8RANGE", "NUMRANGE", "DATERANGE", "TSRANGE", "TSTZRANGE"),
        no("keep both ends in columns, and write x >= a AND x < b"),
    ),
    **dict.fromkeys(("NEXTVAL", "CURRVAL", "SETVAL", "LASTVAL"), no("there are no sequences: write gen_random_uuid()")),
    "CROSSTAB": no("write sum(v) FILTER (WHERE k = 'a') AS a for each column"),
    "MAKE_TIME": _made_time,
    "MAKE_TIMESTAMP": form(TIMESTAMP_FROM_PARTS),
    "MAKE_TIMESTAMPTZ": form(
        f"CAST({TIMESTAMP_FROM_PARTS} AS TIMESTAMPTZ)", f"({TIMESTAMP_FROM_PARTS} AT TIME ZONE {{6}})"
    ),
    "CONVERT_FROM": _converted("Utf8"),
    "CONVERT_TO": _converted("Binary"),
    "QUOTE_IDENT": no("write '\"' || replace(text, '\"', '\"\"') || '\"'"),
    "REGEXP_MATCHES": _match_rows,
    "REGEXP_SPLIT_TO_TABLE": form(f"unnest({SPLIT_BY_PATTERN}({{0}}, {{1}}))"),
    "REGEXP_SUBSTR": _nth_match,
    "STRING_TO_TABLE": form("unnest(string_to_array({0}, {1}))", "unnest(string_to_array({0}, {1}, {2}))"),
    "TO_DATE": _read("DATE"),
    "TO_NUMBER": no("write CAST(text AS DECIMAL(18, 2))"),
    "TO_TIMESTAMP": _read("TIMESTAMPTZ"),
}
"""The functions that differ from the server's; it reads the others under their own names."""
