"""Write Snowflake's casts to days and times: their texts can have several forms, and an offset from UTC."""

from typing import Any, Final

from flightllm.common.names import TIME_VALUE
from flightllm.errors import SqlError
from flightllm.functions.automatic_times import offset_of, plain_time
from flightllm.sql.literals import text_literal

_KINDS: Final = {
    "DATE": "date",
    "TIMESTAMP": "ntz",
    "TIMESTAMPNTZ": "ntz",
    "DATETIME": "ntz",
    "TIMESTAMPLTZ": "ltz",
    "TIMESTAMPTZ": "tz",
}
"""The kinds of days and times by sqlglot's types."""
_TYPES: Final = {"date": "DATE", "ntz": "TIMESTAMP", "ltz": "TIMESTAMPTZ", "tz": "TIMESTAMPTZ"}


def time_cast(generator: Any, cast: Any, *, tries: bool) -> str | None:
    """Return the text of a cast of Snowflake to a day or a time, or None for another cast."""
    kind = _KINDS.get(cast.to.this.name)
    if kind is None or generator.read_from != "snowflake":
        return None
    return as_time(generator, cast.this, kind, tries=tries, to=generator.sql(cast, "to"))


def as_time(generator: Any, value: Any, kind: str, *, tries: bool, format_: str = "", to: str = "") -> str:
    """Return the text of a value as a day or a time of a kind: `date`, `ntz`, `ltz` or `tz`."""
    from sqlglot import exp

    to = to or _TYPES[kind]
    name = "TRY_CAST" if tries else "CAST"
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    if isinstance(inner, exp.Cast) and _is_clear(inner.to.this, kind):
        return f"{name}({generator.sql(value)} AS {to})"
    plain = _plain(inner, kind, format_) if isinstance(inner, exp.Literal) and inner.is_string else None
    if plain is None:
        of = text_literal(f"{kind} try" if tries else kind)
        return f"{name}({TIME_VALUE}({generator.sql(value)}, {of}, {text_literal(format_)}) AS {to})"
    offset = offset_of(str(inner.name)) if kind == "tz" and not format_ else None
    text = f"{name}({text_literal(plain)} AS {to})"
    if offset in {None, "+00:00"}:
        return text
    return f"arrow_cast({text}, 'Timestamp(Nanosecond, Some(\"{offset}\"))')"


def _plain(literal: Any, kind: str, format_: str) -> str | None:
    """Return the text of a literal in the form of ISO 8601, or None for another text, which is an error of its row."""
    of = "ltz" if kind == "tz" and not format_ else kind  # a literal keeps its offset
    try:
        return plain_time(str(literal.name), f"{of} try", format_)
    except SqlError:
        return None


def _is_clear(type_: Any, kind: str) -> bool:
    """Return whether a value of a type becomes a day or a time without a look at its text or its zone."""
    if type_.name in {"TIMESTAMPTZ", "TIMESTAMPLTZ"}:
        return kind != "ntz"
    return type_.name in _KINDS
