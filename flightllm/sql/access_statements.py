"""Parser for GRANT, REVOKE, row filters and column masks."""

from collections.abc import Sequence
from typing import cast

from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.grants import PRIVILEGES, SAME_AS_USAGE, AccessPolicy, Grant, ObjectKind, Privilege, kind_after_on
from flightllm.sql.names import identifier
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

_GRANT = (
    "write GRANT SELECT ON [TABLE] name TO user [, …], or ON SCHEMA | MODEL | PROMPT | FUNCTION name; REVOKE …"
    " FROM user"
)
_FILTER = "write CREATE [OR REPLACE] ROW FILTER ON table TO user AS condition, DROP ROW FILTER ON table FROM user"
_MASK = "write CREATE [OR REPLACE] COLUMN MASK ON table(column) TO user AS value, DROP COLUMN MASK … FROM user"


def read_access_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it changes grants, row filters or column masks, else None.

    Raises:
        SqlError: a part is missing, or the privilege or the kind of object is unknown.
    """
    reader = _AccessStatementReader(tokens, text)
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


class _AccessStatementReader(Cursor):
    """A reader that goes through the tokens from left to right."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        super().__init__(tokens, 0)
        self._text = text

    def grant(self, verb: str, preposition: str) -> Statement:
        """Read the rest of GRANT or REVOKE."""
        named = [self._privilege()]
        while self.symbol(","):
            named.append(self._privilege())
        self.take("privileges")
        self.need(_GRANT, "on")
        kind, self.at = kind_after_on(self.tokens, self.at)
        if kind == "FUNCTION":
            named = ["USAGE" if one == SAME_AS_USAGE else one for one in named]
        schema, name = self._object(kind)
        self.need(_GRANT, preposition)
        grantees = [self._user(_GRANT)]
        while self.symbol(","):
            grantees.append(self._user(_GRANT))
        self.end(_GRANT)
        valid = PRIVILEGES[kind]
        privileges = list(valid) if named == ["ALL"] else named
        for privilege in privileges:
            if privilege not in valid:
                raise SqlError(f"a {kind.lower()} has no privilege {privilege}: write {', '.join(valid)} or ALL")
        grants = tuple(
            Grant(grantee, cast("Privilege", p), kind, schema, name) for grantee in grantees for p in privileges
        )
        return Statement("grant" if verb == "grant" else "revoke", self._text, grants=grants)

    def policy(self, *, creates: bool, replaces: bool, usage: str) -> Statement:
        """Read the rest of CREATE or DROP of a row filter or column mask."""
        self.need(usage, "on")
        table = self.table()
        column = ""
        if usage is _MASK:
            column = self.name("a column", usage) if self.symbol("(") else ""
            if not column or not self.symbol(")"):
                raise SqlError(f"a column in parentheses was expected after the table: {_MASK}")
        self.need(usage, "to" if creates else "from")
        grantee = self._user(usage)
        expression = ""
        if creates:
            self.need(usage, "as")
            if self.at == len(self.tokens):
                raise SqlError(f"an expression was expected after AS: {usage}")
            expression = self._without_comments()
        self.end(usage)
        policy = AccessPolicy(grantee, table.schema, table.name, column, expression)
        return Statement("create_policy" if creates else "drop_policy", self._text, policy=policy, or_replace=replaces)

    def _without_comments(self) -> str:
        """Return the rest of the text without comments.

        The server later puts the text in parentheses. A comment at its end would hide the closing one.
        """
        start = self.tokens[0].start
        rest, self.at = self.tokens[self.at :], len(self.tokens)
        return " ".join(self._text[token.start - start : token.end - start] for token in rest)

    def _object(self, kind: ObjectKind) -> tuple[str, str]:
        if kind == "TABLE":
            table = self.table()
            return table.schema, table.name
        name = self.name(f"a {kind.lower()}", _GRANT)
        if kind == "FUNCTION" and self.symbol("("):  # PostgreSQL writes the types of parameters after the name
            while not self.symbol(")"):
                if self.next() is None:
                    raise SqlError(f"the list after {name} has no end: {_GRANT}")
        return (name, "") if kind == "SCHEMA" else ("", name)

    def _user(self, usage: str) -> str:
        return self.name("a user", usage)

    def _privilege(self) -> str:
        token = self.next()
        if token is None or token.kind is not TokenKind.WORD:
            raise SqlError(f"a privilege was expected: {_GRANT}")
        return (identifier(token) or "").upper()
