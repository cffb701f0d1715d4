"""Write the functions of PostgreSQL that the server has in another form."""

from typing import Final

from flightllm.dialect.formats import from_letters
from flightllm.dialect.generator.calls import Call, Rule, Table, form, named, no, same
from flightllm.dialect.generator.forms import flags_of, match
from flightllm.dialect.generator.tables.shared import TIMESTAMP_FROM_PARTS
from flightllm.functions.text_parts import MATCH_ROWS, SPLIT_BY_PATTERN
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


POSTGRES: Final[Table] = {
    "ARRAY_LENGTH": form("CAST(array_length({0}, {1}) AS BIGINT)"),
    "ARRAY_LOWER": form("(CASE WHEN array_length({0}, {1}) > 0 THEN 1 END)"),
    "ARRAY_UPPER": form("CAST(array_length({0}, {1}) AS BIGINT)"),
    "CARDINALITY": form("CAST(cardinality({0}) AS BIGINT)"),
    "DATE": form("CAST({0} AS DATE)"),
    "DIV": form("trunc({0} / {1})"),
    "EVERY": named("bool_and"),
    "INITCAP": named("initcap"),
    **same("JSON_TYPEOF", "JSONB_TYPEOF", "JSON_AGG", "JSONB_AGG", "JSON_OBJECT_AGG", "JSONB_OBJECT_AGG"),
    "MAKE_TIMESTAMP": form(TIMESTAMP_FROM_PARTS),
    "QUOTE_IDENT": no("write '\"' || replace(text, '\"', '\"\"') || '\"'"),
    "REGEXP_MATCHES": _match_rows,
    "REGEXP_SPLIT_TO_TABLE": form(f"unnest({SPLIT_BY_PATTERN}({{0}}, {{1}}))"),
    "REGEXP_SUBSTR": _nth_match,
    "TO_DATE": _read("DATE"),
    "TO_NUMBER": no("write CAST(text AS DECIMAL(18, 2))"),
    "TO_TIMESTAMP": _read("TIMESTAMPTZ"),
}
"""The functions that differ from the server's; it reads the others under their own names."""
