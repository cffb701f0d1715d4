"""Parser for CREATE, DROP, REFRESH and SHOW of vector indexes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from flightllm.common.names import TableName
from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import identifier, read_name
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

VECTOR_INDEXES = TableName("system", "vector_indexes")
_WHAT = "a vector index"
_OPTIONS = "OPTIONS (type 'ivf', lists 1024)"
_CREATE = "write CREATE [OR REPLACE] VECTOR INDEX name ON table(column) [OPTIONS (type 'ivf', …)]"


def read_index_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it concerns vector indexes, else None.

    Raises:
        SqlError: a part is missing, or unexpected text follows the statement.
    """
    words = [token.text.lower() if token.kind is TokenKind.WORD else "" for token in tokens[:5]]
    verb = words[0]
    if verb == "create":
        replaces = words[1:3] == ["or", "replace"]
        at = 3 if replaces else 1
        return _IndexStatementReader(tokens, at, text).create(replaces=replaces) if _names_index(words, at) else None
    if not _names_index(words, 1):
        if verb == "show" and words[1:3] == ["vector", "indexes"] and len(tokens) == 3:
            return Statement("query", text, query=f"SELECT * FROM {VECTOR_INDEXES.sql}")
        return None
    match verb:
        case "drop":
            return _IndexStatementReader(tokens, 1, text).drop()
        case "refresh":
            return _IndexStatementReader(tokens, 1, text).refresh()
        case _:
            return None


def _names_index(words: Sequence[str], at: int) -> bool:
    return list(words[at : at + 2]) == ["vector", "index"]


class _IndexStatementReader:
    """A reader for the tokens after the words VECTOR INDEX."""

    def __init__(self, tokens: Sequence[Token], at: int, text: str) -> None:
        self._cursor = Cursor(tokens, at + 2)
        self._text = text

    def create(self, *, replaces: bool) -> Statement:
        """Read the rest of CREATE."""
        cursor = self._cursor
        exists_ok = cursor.take("if", "not", "exists")
        name = cursor.name(_WHAT, _CREATE)
        if not cursor.take("on"):
            raise SqlError(f"ON table(column) was expected: {_CREATE}")
        table, cursor.at = read_name(cursor.tokens, cursor.at)
        column = self._column()
        given = cursor.options(_OPTIONS) if cursor.take("options") or cursor.take("with") else {}
        cursor.end(_CREATE)
        return Statement(
            "create_index",
            self._text,
            target=table,
            columns=(column,),
            or_replace=replaces,
            exists_ok=exists_ok,
            key=name,
            options=MappingProxyType({option: token.text for option, token in given.items()}),
        )

    def drop(self) -> Statement:
        """Read the rest of DROP."""
        exists_ok = self._cursor.take("if", "exists")
        return Statement("drop_index", self._text, key=self._only_name("DROP"), exists_ok=exists_ok)

    def refresh(self) -> Statement:
        """Read the rest of REFRESH."""
        return Statement("refresh_index", self._text, key=self._only_name("REFRESH"))

    def _only_name(self, verb: str) -> str:
        usage = f"write {verb} VECTOR INDEX name"
        name = self._cursor.name(_WHAT, usage)
        self._cursor.end(usage)
        return name

    def _column(self) -> str:
        opening, column, closing = (self._cursor.next() for _ in range(3))
        name = None if column is None else identifier(column)
        closed = closing is not None and closing.is_symbol(")")
        if opening is None or not opening.is_symbol("(") or name is None or not closed:
            raise SqlError(f"one column in parentheses was expected after the table: {_CREATE}")
        return name
