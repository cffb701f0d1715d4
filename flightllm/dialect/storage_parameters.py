"""Remove UNLOGGED and the storage parameters of PostgreSQL from CREATE TABLE: they have no effect here."""

from collections.abc import Iterator
from typing import Final

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.names import read_parts

_UNKEPT: Final = ("unlogged", "transient")
"""The words for tables that are stored with less safety: here all tables are stored alike."""
WORDS: Final = frozenset({*_UNKEPT, "with"})
"""The words of which a text must have one to have such parts."""
_NAMES: Final = frozenset(
    {
        *("fillfactor", "toast_tuple_target", "parallel_workers", "user_catalog_table", "vacuum_truncate"),
        *("vacuum_index_cleanup", "log_autovacuum_min_duration", "oids"),
    }
)


def storage_parameters(source: Source) -> Iterator[Edit]:
    """Rewrite `CREATE UNLOGGED TABLE t (a INT) WITH (fillfactor=70)` as `CREATE TABLE t (a INT)`; also TRANSIENT.

    Raises:
        SqlError: PostgreSQL has no such parameter.
    """
    if not source.is_word(0, "create"):
        return
    at = 1
    while source.is_word(at, "or", "replace", "temp", "temporary", "local", "global"):
        at += 1
    if source.is_word(at, *_UNKEPT) and source.is_word(at + 1, "table"):
        yield Edit(source.tokens[at].start, source.tokens[at + 1].start, "")
        at += 1
    if not source.is_word(at, "table"):
        return
    at += 4 if source.is_word(at + 1, "if") else 1
    _, at = read_parts(source.tokens, at)
    if source.is_symbol(at, "("):
        at = source.closing.get(at, at) + 1
    if source.is_word(at, "with") and source.is_symbol(at + 1, "("):
        end = source.closing.get(at + 1, at + 1)
        _check(source, at + 2, end)
        yield Edit(source.tokens[at - 1].end, source.tokens[end].end, "")


def _check(source: Source, first: int, end: int) -> None:
    begins = [first, *(at + 1 for at in range(first, end) if source.is_symbol(at, ","))]
    for at in begins:
        name = source.tokens[at].text.lower() if at < end else ""
        if name == "toast" and source.is_symbol(at + 1, "."):
            name = source.tokens[at + 2].text.lower()
        if name not in _NAMES and not name.startswith("autovacuum_"):
            raise SqlError(
                f"CREATE TABLE … WITH has no parameter {name!r}: leave it out; PostgreSQL's storage parameters, such as"
                " fillfactor, are accepted and have no effect"
            )
