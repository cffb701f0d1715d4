"""The rules in their order."""

from collections.abc import Callable, Iterable

from flightllm.dialect.dual import dual
from flightllm.dialect.duplicates import duplicates
from flightllm.dialect.fetch_first import fetch_first
from flightllm.dialect.from_first import from_first
from flightllm.dialect.functions import functions
from flightllm.dialect.identity import identity
from flightllm.dialect.json_operators import json_operators
from flightllm.dialect.national_texts import national_texts
from flightllm.dialect.pivot import pivot
from flightllm.dialect.place import Place
from flightllm.dialect.show import show
from flightllm.dialect.source import Source
from flightllm.dialect.stars import stars
from flightllm.dialect.summarize import summarize
from flightllm.dialect.table_names import table_names
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.timestamps import timestamps
from flightllm.dialect.top import top
from flightllm.dialect.types import types
from flightllm.dialect.unpivot import unpivot
from flightllm.dialect.vendor_calls import vendor_calls

DEFAULT = "default"
"""The dialect of this server."""
Rule = Callable[[Source], Iterable[Edit]]
RULES: tuple[Rule, ...] = (
    summarize,
    from_first,
    pivot,
    unpivot,
    vendor_calls,
    functions,
    json_operators,
    show,
    top,
    fetch_first,
    dual,
    national_texts,
    timestamps,
    types,
    identity,
    stars,
    table_names,
    duplicates,
)


def sent_texts(sql: str, dialect: str = DEFAULT) -> Rewritten:
    """Return a statement in a dialect as this server's lexer reads it: see `plain_texts`.

    Raises:
        SqlError: it cannot be split into tokens of this dialect.
    """
    if dialect == DEFAULT:
        return Rewritten(sql, sql)
    from flightllm.dialect.plain_texts import plain_texts

    return plain_texts(sql, dialect)


def rewrite(sql: str, place: Place, dialect: str = DEFAULT) -> Rewritten:
    """Return a statement as DataFusion reads it, with the names of tables as its session means them.

    A query or a change of rows is read in `dialect` first, where that is not this server's own.

    Raises:
        FlightLLMError: the text cannot be read, or a name in it is not for a statement of its kind.
    """
    if dialect == DEFAULT:
        found = Rewritten(sql, sql)
    else:
        from flightllm.dialect.transpiling import transpile

        found = transpile(sql, dialect, place)
    source = Source(found.text, place)
    if not source.tokens:  # nothing, or a comment: the parser's own error says so
        return found
    for rule in RULES:
        after = found.with_edits(rule(source))
        if after is not found:
            found, source = after, Source(after.text, place)
    return found
