"""Reader of the tables in scope at each token, used to expand `t.*` and to distinguish calls from table names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flightllm.errors import SqlError
from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Token, TokenKind, position

_TABLE_CLAUSES = ("with", "from", "join", "into", "table", "view", "update")
_CLAUSES = (
    *(*_TABLE_CLAUSES, "select", *ENDS_FROM),
    *("on", "using", "values", "set", "returning"),
)
NO_ALIAS = (
    *(*_CLAUSES, "inner", "left", "right", "full", "cross", "natural", "outer", "lateral", "semi", "anti"),
    "tablesample",
)
"""Words that can follow a table and are not its alias."""
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Table:
    """A FROM item: its alias, its dotted name or its subquery, and the column list after the alias.

    The subquery and the column list are token ranges from `(` to `)`, both included.
    """

    alias: str
    name: str | None
    subquery: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    parts: tuple[str, ...] = ()
    """The parts of its dotted name."""
    first: int = 0
    """The index of its first token."""
    last: int = 0
    """The index of the token after its name or subquery."""
    aliased: bool = False


@dataclass(slots=True)
class Scope:
    """The FROM items of one SELECT; `parent` has the items of the SELECT around it."""

    parent: "Scope | None"
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A CTE: the tokens of its WITH and of its closing parenthesis."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scopes of one statement; all indexes are token indexes."""

    closing: Mapping[int, int]
    """The closing bracket of each opening bracket; unclosed brackets are absent."""
    of: Sequence[Scope]
    """The scope of each token."""
    names_table: Sequence[bool]
    """For each token, whether a name there means a table: in FROM, INTO, WITH …, not in an expression."""
    common_tables: Sequence[CommonTable]


def read_scopes(sql: str, tokens: Sequence[Token]) -> Scopes:
    """Return the scopes of a statement, from one pass over its tokens.

    Raises:
        SqlError: a closing bracket has no opening one.
    """
    closing = _match(sql, tokens)
    reader = _ScopeReader(tokens, closing)
    for index in range(len(tokens)):
        reader.step(index)
    return Scopes(closing, reader.of, reader.names_table, reader.common_tables)


def _match(sql: str, tokens: Sequence[Token]) -> dict[int, int]:
    closing: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text in _PAIRS:
            opened.append(index)
        elif token.text in {")", "]", "}"}:
            if not opened or _PAIRS[tokens[opened[-1]].text] != token.text:
                raise SqlError(
                    f"{token.text!r} at {position(sql, token.start)} has no opening bracket: remove it or add one"
                )
            closing[opened.pop()] = index
    return closing


@dataclass(slots=True)
class _Frame:
    """One level of parentheses: the present clause, and the index of its WITH."""

    outer: Scope
    scope: Scope
    clause: str = ""
    with_start: int = 0


class _ScopeReader:
    """A reader that goes through the tokens once."""

    def __init__(self, tokens: Sequence[Token], closing: Mapping[int, int]) -> None:
        self._tokens = tokens
        self._closing = closing
        self.of: list[Scope] = []
        self.names_table: list[bool] = []
        self.common_tables: list[CommonTable] = []
        root = Scope(None)
        self._frames = [_Frame(root, root)]

    def step(self, index: int) -> None:
        """Read one token."""
        token, frame = self._tokens[index], self._frames[-1]
        if token.kind is TokenKind.WORD and not self._follows(index, "."):
            self._word(index, token.text.lower(), frame)
        elif token.is_symbol(",") and frame.clause in {"on", "using"}:
            frame.clause = "from"  # FROM a JOIN b ON …, c
        expected = self._expects_table(index, frame)
        self.of.append(frame.scope)
        self.names_table.append(expected)
        if expected and frame.clause in {"from", "join", "update"}:
            self._table(index, frame)
        elif frame.clause == "with" and token.is_symbol("("):
            self._common_table(index, frame)
        if token.is_symbol("("):
            inner = _Frame(frame.scope, frame.scope)
            inner.clause = frame.clause if expected else ""
            self._frames.append(inner)
        elif token.is_symbol(")") and len(self._frames) > 1:
            self._frames.pop()

    def _word(self, index: int, word: str, frame: _Frame) -> None:
        if word not in _CLAUSES:
            return
        if word == "select":
            frame.scope = Scope(frame.outer)
        elif word == "with":
            frame.with_start = index
        elif word == "from" and (self._is_word(index - 1, "distinct") or self._in_function(frame)):
            return  # IS DISTINCT FROM; EXTRACT(year FROM x)
        elif word == "on" and self._is_word(index - 1, "distinct"):
            return  # SELECT DISTINCT ON (x)
        frame.clause = word

    def _in_function(self, frame: _Frame) -> bool:
        return len(self._frames) > 1 and not frame.clause

    def _expects_table(self, index: int, frame: _Frame) -> bool:
        if frame.clause not in _TABLE_CLAUSES:
            return False
        return (
            self._is_word(index - 1, *_TABLE_CLAUSES, "lateral", "only", "exists", "recursive")
            or self._follows(index, ",")
            or (self._follows(index, "(") and len(self._frames) > 1)
        ) and not self._is_word(index, "lateral", "only")

    def _table(self, index: int, frame: _Frame) -> None:
        """Add the FROM item that begins here, under its alias."""
        parts: list[str] = []
        end = index
        subquery: tuple[int, int] | None = None
        if self._tokens[index].is_symbol("("):
            if index not in self._closing or not self._is_word(index + 1, "select", "with", "values"):
                return
            subquery, end = (index, self._closing[index]), self._closing[index] + 1
        else:
            while (name := self._name(end)) is not None:
                parts.append(name)
                end += 1
                if not self._is_symbol(end, "."):
                    break
                end += 1
            if self._is_symbol(end, "(") and end in self._closing:
                end, parts = self._closing[end] + 1, []
        last = end
        if self._is_word(end, "as"):
            end += 1
        alias = None if self._is_word(end, *NO_ALIAS) else self._name(end)
        if alias or parts:
            after = end + 1
            columns = (after, self._closing[after]) if self._is_symbol(after, "(") and after in self._closing else None
            name, aliased = ".".join(parts) or None, alias is not None
            frame.scope.tables.append(
                Table(alias or parts[-1], name, subquery, columns, tuple(parts), index, last, aliased=aliased)
            )

    def _common_table(self, index: int, frame: _Frame) -> None:
        """Add a CTE if this parenthesis opens its body: `name [(columns)] AS [[NOT] MATERIALIZED] (`."""
        before = index - 1
        while self._is_word(before, "materialized", "not"):
            before -= 1
        if not self._is_word(before, "as"):
            return
        before -= 1
        if self._is_symbol(before, ")"):
            before = next(start for start, end in self._closing.items() if end == before) - 1
        if (name := self._name(before)) is not None and index in self._closing:
            self.common_tables.append(CommonTable(name, frame.with_start, self._closing[index]))

    def _name(self, index: int) -> str | None:
        return identifier(self._tokens[index]) if index < len(self._tokens) else None

    def _is_word(self, index: int, *words: str) -> bool:
        return 0 <= index < len(self._tokens) and self._tokens[index].is_word(*words)

    def _is_symbol(self, index: int, text: str) -> bool:
        return 0 <= index < len(self._tokens) and self._tokens[index].is_symbol(text)

    def _follows(self, index: int, text: str) -> bool:
        return self._is_symbol(index - 1, text)
