"""CREATE, DROP, REFRESH and SHOW of vector indexes, read from their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from flightllm.errors import SqlError
from flightllm.sql.names import TableName, identifier, read_name, read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Kind, Token

VECTOR_INDEXES = TableName("system", "vector_indexes")
_CREATE = "write CREATE [OR REPLACE] VECTOR INDEX name ON table(column) [OPTIONS (type 'ivf', …)]"


def read_index_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement where it is about vector indexes, else None.

    Raises:
        SqlError: a part is missing, or something follows that means nothing.
    """
    words = [token.text.lower() if token.kind is Kind.WORD else "" for token in tokens[:5]]
    verb = words[0]
    if verb == "create":
        replaces = words[1:3] == ["or", "replace"]
        at = 3 if replaces else 1
        return _Reader(tokens, at, text).create(replaces=replaces) if _names_index(words, at) else None
    if not _names_index(words, 1):
        if verb == "show" and words[1:3] == ["vector", "indexes"] and len(tokens) == 3:
            return Statement("query", text, query=f"SELECT * FROM {VECTOR_INDEXES.sql}")
        return None
    match verb:
        case "drop":
            return _Reader(tokens, 1, text).drop()
        case "refresh":
            return _Reader(tokens, 1, text).refresh()
        case _:
            return None


def _names_index(words: Sequence[str], at: int) -> bool:
    return list(words[at : at + 2]) == ["vector", "index"]


class _Reader:
    """Walks the tokens from the words VECTOR INDEX on."""

    def __init__(self, tokens: Sequence[Token], at: int, text: str) -> None:
        self._tokens = tokens
        self._at = at + 2
        self._text = text

    def create(self, *, replaces: bool) -> Statement:
        """Read the rest of CREATE."""
        exists_ok = self._take("if", "not", "exists")
        name = self._name(_CREATE)
        if not self._take("on"):
            raise SqlError(f"ON table(column) was expected: {_CREATE}")
        table, self._at = read_name(self._tokens, self._at)
        column = self._column()
        options = self._options() if self._take("options") or self._take("with") else MappingProxyType({})
        self._end(_CREATE)
        return Statement(
            "create_index",
            self._text,
            target=table,
            columns=(column,),
            or_replace=replaces,
            exists_ok=exists_ok,
            key=name,
            options=options,
        )

    def drop(self) -> Statement:
        """Read the rest of DROP."""
        exists_ok = self._take("if", "exists")
        return Statement("drop_index", self._text, key=self._only_name("DROP"), exists_ok=exists_ok)

    def refresh(self) -> Statement:
        """Read the rest of REFRESH."""
        return Statement("refresh_index", self._text, key=self._only_name("REFRESH"))

    def _only_name(self, verb: str) -> str:
        usage = f"write {verb} VECTOR INDEX name"
        name = self._name(usage)
        self._end(usage)
        return name

    def _take(self, *words: str) -> bool:
        following = self._tokens[self._at : self._at + len(words)]
        found = len(following) == len(words) and all(t.is_word(w) for t, w in zip(following, words, strict=True))
        self._at += len(words) * found
        return found

    def _name(self, usage: str) -> str:
        parts, self._at = read_parts(self._tokens, self._at)
        if len(parts) != 1:
            raise SqlError(f"a vector index has a name of one part: {usage}")
        return parts[0]

    def _column(self) -> str:
        opening, column, closing = (*self._tokens[self._at : self._at + 3], None, None, None)[:3]
        name = None if column is None else identifier(column)
        closed = closing is not None and closing.is_symbol(")")
        if opening is None or not opening.is_symbol("(") or name is None or not closed:
            raise SqlError(f"one column in parentheses was expected after the table: {_CREATE}")
        self._at += 3
        return name

    def _options(self) -> Mapping[str, str]:
        """Read `(name value, …)`, with or without `=` between, values quoted or not."""
        found: dict[str, str] = {}
        opening = self._next()
        if opening is None or not opening.is_symbol("("):
            raise SqlError("OPTIONS needs a list: OPTIONS (type 'ivf', metric 'cosine')")
        while True:
            name, value = self._next(), self._next()
            if value is not None and value.is_symbol("="):
                value = self._next()
            key = None if name is None else identifier(name)
            if key is None or value is None or value.kind not in {Kind.STRING, Kind.NUMBER, Kind.WORD}:
                raise SqlError("an option is a name and a value: OPTIONS (type 'ivf', lists 1024)")
            if key in found:
                raise SqlError(f"the option {key} is given twice")
            found[key] = value.text
            after = self._next()
            if after is not None and after.is_symbol(")"):
                return MappingProxyType(found)
            if after is None or not after.is_symbol(","):
                raise SqlError(f"expected , or ) after the option {key}")

    def _next(self) -> Token | None:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        self._at += 1
        return token

    def _end(self, usage: str) -> None:
        if self._at < len(self._tokens):
            raise SqlError(f"{self._tokens[self._at].text[:40]!r} was not expected: {usage}")
