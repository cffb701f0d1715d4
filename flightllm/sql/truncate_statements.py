"""Parser for TRUNCATE, which empties tables or the answer cache."""

from collections.abc import Sequence

from flightllm.common.names import TableName
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.cursor import Cursor
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token

ANSWER_CACHE = TableName("system", "cache")
"""The system table of the answer cache: TRUNCATE of it deletes all cached answers."""
_USAGE = "write TRUNCATE [TABLE] [IF EXISTS] name [, …] [RESTART IDENTITY | CONTINUE IDENTITY] [CASCADE | RESTRICT]"


def read_truncate(tokens: Sequence[Token], text: str) -> Statement:
    """Read TRUNCATE; the statement's `dropped` has the tables to empty, and is empty for the answer cache.

    Raises:
        SqlError: a name is missing, or something follows that TRUNCATE does not take.
        UnsupportedError: the answer cache is named together with tables.
    """
    cursor = Cursor(tokens, 1)
    _ = cursor.take("table")
    exists_ok = cursor.take("if", "exists")
    names = [_table(cursor)]
    while cursor.symbol(","):
        names.append(_table(cursor))
    if ANSWER_CACHE in names:
        if len(names) > 1:
            raise UnsupportedError(f"{ANSWER_CACHE.display} is not a table: truncate it in a statement of its own")
        cursor.end(f"TRUNCATE TABLE {ANSWER_CACHE.display} takes nothing more")
        return Statement("truncate", text, target=ANSWER_CACHE)
    # No column numbers its rows by itself, so there is nothing to restart or to continue.
    _ = cursor.take("restart", "identity") or cursor.take("continue", "identity")
    cascade = cursor.take("cascade")
    _ = cascade or cursor.take("restrict")
    cursor.end(_USAGE)
    dropped = tuple(dict.fromkeys(names))
    return Statement("truncate", text, target=names[0], dropped=dropped, cascade=cascade, exists_ok=exists_ok)


def _table(cursor: Cursor) -> TableName:
    _ = cursor.take("only")  # no table inherits from another one
    if cursor.at >= len(cursor.tokens):
        raise SqlError(f"the name of a table was expected: {_USAGE}")
    return cursor.table()
