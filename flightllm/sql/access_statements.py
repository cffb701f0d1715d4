"""GRANT, REVOKE, row filters and column masks, read from their tokens."""

from collections.abc import Sequence
from typing import cast

from flightllm.access.grants import PRIVILEGES, Grant, ObjectKind, Policy, Privilege
from flightllm.errors import SqlError
from flightllm.sql.names import identifier, read_name, read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Kind, Token

_GRANT = "write GRANT SELECT ON [TABLE] name TO user, or ON SCHEMA | MODEL | PROMPT name; REVOKE … FROM user"
_FILTER = "write CREATE [OR REPLACE] ROW FILTER ON table TO user AS condition, DROP ROW FILTER ON table FROM user"
_MASK = "write CREATE [OR REPLACE] COLUMN MASK ON table(column) TO user AS value, DROP COLUMN MASK … FROM user"


def read_access_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement where it is about who may do what, else None.

    Raises:
        SqlError: a part is missing, or names no privilege or kind of object.
    """
    reader = _Reader(tokens, text)
    if reader.take("grant"):
        return reader.grant("grant", "to")
    if reader.take("revoke"):
        return reader.grant("revoke", "from")
    creates = reader.take("create")
    replaces = creates and reader.take("or", "replace")
    if not creates and not reader.take("drop"):
        return None
    if reader.take("row", "filter"):
        return reader.policy(creates=creates, replaces=replaces, usage=_FILTER)
    if reader.take("column", "mask"):
        return reader.policy(creates=creates, replaces=replaces, usage=_MASK)
    return None


class _Reader:
    """Walks the tokens from left to right."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0

    def take(self, *words: str) -> bool:
        """Go past words where they come next; tell whether they did."""
        following = self._tokens[self._at : self._at + len(words)]
        found = len(following) == len(words) and all(t.is_word(w) for t, w in zip(following, words, strict=True))
        self._at += len(words) * found
        return found

    def grant(self, verb: str, preposition: str) -> Statement:
        """Read the rest of GRANT or REVOKE."""
        named = [self._word()]
        while self._symbol(","):
            named.append(self._word())
        self.take("privileges")
        self._need("on", _GRANT)
        kind: ObjectKind = "TABLE"
        for other in PRIVILEGES:
            if self.take(other.lower()):
                kind = other
                break
        schema, name = self._object(kind)
        self._need(preposition, _GRANT)
        grantee = self._last_name(_GRANT)
        valid = PRIVILEGES[kind]
        privileges = list(valid) if named == ["ALL"] else named
        for privilege in privileges:
            if privilege not in valid:
                raise SqlError(f"on a {kind.lower()} there is no privilege {privilege}: {', '.join(valid)} or ALL")
        grants = tuple(Grant(grantee, cast("Privilege", p), kind, schema, name) for p in privileges)
        return Statement("grant" if verb == "grant" else "revoke", self._text, grants=grants)

    def policy(self, *, creates: bool, replaces: bool, usage: str) -> Statement:
        """Read the rest of CREATE or DROP of a row filter or column mask."""
        self._need("on", usage)
        table, self._at = read_name(self._tokens, self._at)
        column = ""
        if usage is _MASK:
            column = self._name(usage) if self._symbol("(") else ""
            if not column or not self._symbol(")"):
                raise SqlError(f"a column in parentheses was expected after the table: {_MASK}")
        self._need("to" if creates else "from", usage)
        grantee = self._name(usage)
        expression = ""
        if creates:
            self._need("as", usage)
            if self._at == len(self._tokens):
                raise SqlError(f"an expression was expected after AS: {usage}")
            expression = self._without_comments()
        self._end(usage)
        policy = Policy(grantee, table.schema, table.name, column, expression)
        return Statement("create_policy" if creates else "drop_policy", self._text, policy=policy, or_replace=replaces)

    def _without_comments(self) -> str:
        """Return the rest of the text: one that ends in a comment could not stand in parentheses."""
        start = self._tokens[0].start
        rest, self._at = self._tokens[self._at :], len(self._tokens)
        return " ".join(self._text[token.start - start : token.end - start] for token in rest)

    def _object(self, kind: ObjectKind) -> tuple[str, str]:
        if kind == "TABLE":
            table, self._at = read_name(self._tokens, self._at)
            return table.schema, table.name
        name = self._name(_GRANT)
        return (name, "") if kind == "SCHEMA" else ("", name)

    def _name(self, usage: str) -> str:
        parts, self._at = read_parts(self._tokens, self._at)
        if len(parts) != 1:
            raise SqlError(f"a name of one part was expected: {usage}")
        return parts[0]

    def _last_name(self, usage: str) -> str:
        name = self._name(usage)
        self._end(usage)
        return name

    def _word(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        self._at += 1
        if token is None or token.kind is not Kind.WORD:
            raise SqlError(f"a privilege was expected: {_GRANT}")
        return (identifier(token) or "").upper()

    def _symbol(self, symbol: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at].is_symbol(symbol)
        self._at += found
        return found

    def _need(self, word: str, usage: str) -> None:
        if not self.take(word):
            raise SqlError(f"{word.upper()} was expected: {usage}")

    def _end(self, usage: str) -> None:
        if self._at < len(self._tokens):
            raise SqlError(f"{self._tokens[self._at].text[:40]!r} was not expected: {usage}")
