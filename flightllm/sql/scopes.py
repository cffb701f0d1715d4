"""Reader of the tables in scope at each token, used to expand `t.*` and to distinguish calls from table names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flightllm.common.stopping import CHECKED_TOKENS, check_wanted
from flightllm.errors import SqlError
from flightllm.sql.keywords import ENDS_FROM, SET_OPERATIONS
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
_READ_CLAUSES = frozenset({*_TABLE_CLAUSES, "on", "using"})
"""The clauses in which each token can matter to the scopes."""
_READ_SYMBOLS = frozenset({"(", ")", "|>"})
_QUERIES = ("select", "with", "values")
_AFTER_QUERY = (*SET_OPERATIONS, "minus", "order", "limit", "offset", "fetch")
"""Words that follow a query in parentheses, but not a table in parentheses."""
_MAX_BRACKETS = 64
"""More brackets around a query than DataFusion can read."""
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
    opening: int
    """The token of its opening parenthesis."""
    columns: tuple[int, int] | None
    """Its column list, from `(` to `)`, both included."""
    named: int
    """The token of its name."""
    until: int
    """The token after the last one of the query that has the WITH."""
    own: int | None
    """The UNION after which a recursive CTE reads itself; None for another CTE."""

    def is_visible(self, index: int) -> bool:
        """Return whether its name means this CTE at a token, if no other CTE hides it."""
        return self.end < index < self.until or (self.own is not None and self.own < index < self.end)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scopes of one statement; all indexes are token indexes."""

    closing: Mapping[int, int]
    """The closing bracket of each opening bracket; unclosed brackets are absent."""
    opening: Mapping[int, int]
    """The opening bracket of each closing bracket."""
    around: Sequence[int | None]
    """For each token, the innermost opening bracket before it whose closing bracket is after it, or None."""
    of: Sequence[Scope]
    """The scope of each token."""
    names_table: Sequence[bool]
    """For each token, whether a name there means a table: in FROM, INTO, WITH …, not in an expression."""
    clauses: Sequence[str]
    """For each token, the word or `|>` that began its clause; empty in brackets without a clause, as in `f(a)`."""
    common_tables: Sequence[CommonTable]

    def common_table(self, parts: Sequence[str], index: int) -> CommonTable | None:
        """Return the CTE that the parts of a name mean at a token, or None: the innermost one that is visible there.

        `SELECT 1 FROM (WITH t AS (…) SELECT 1 FROM t) q, t` names the CTE first, and then a table of the catalog.
        """
        if len(parts) != 1:
            return None
        visible = (one for one in self.common_tables if one.name == parts[0] and one.is_visible(index))
        return max(visible, key=lambda one: one.start, default=None)

    def changed_table(self, verb: int) -> Table | None:
        """Return the table that the UPDATE or DELETE at a token changes, or None if its name is missing."""
        return next((table for table in self.of[verb].tables if table.first > verb), None)


def read_scopes(sql: str, tokens: Sequence[Token]) -> Scopes:
    """Return the scopes of a statement, from one pass over its tokens.

    Raises:
        SqlError: a closing bracket has no opening one.
    """
    closing = _match(sql, tokens)
    opening = {end: start for start, end in closing.items()}
    around = _around(len(tokens), closing, opening)
    reader = _ScopeReader(tokens, closing, opening)
    for index in range(len(tokens)):
        if not index % CHECKED_TOKENS:
            check_wanted()
        reader.step(index)
    return Scopes(closing, opening, around, reader.of, reader.names_table, reader.clauses, reader.common_tables)


def begins_query(tokens: Sequence[Token], closing: Mapping[int, int], opening: int) -> bool:
    """Return whether a parenthesis in FROM encloses a query, as in `((SELECT 1) UNION SELECT 2)`, and not a join."""
    inner = opening
    while inner in closing and tokens[inner + 1].is_symbol("(") and inner - opening < _MAX_BRACKETS:
        inner += 1
    if inner not in closing or not tokens[inner + 1].is_word(*_QUERIES):
        return False
    after = (closing[at] + 1 for at in range(opening + 1, inner + 1))
    return all(tokens[at].is_symbol(")") or tokens[at].is_word(*_AFTER_QUERY) for at in after)


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


def _around(count: int, closing: Mapping[int, int], opening: Mapping[int, int]) -> list[int | None]:
    around: list[int | None] = []
    opened: list[int | None] = [None]
    for index in range(count):
        if index in opening:
            opened.pop()
        around.append(opened[-1])
        if index in closing:
            opened.append(index)
    return around


@dataclass(slots=True)
class _Frame:
    """One level of parentheses: the present clause, and the index of its WITH."""

    outer: Scope
    scope: Scope
    end: int
    """The closing parenthesis, or the end of the statement."""
    clause: str = ""
    with_start: int = 0
    deletes: bool = False
    """Whether the FROM is that of a DELETE."""


class _ScopeReader:
    """A reader that goes through the tokens once."""

    def __init__(self, tokens: Sequence[Token], closing: Mapping[int, int], opening: Mapping[int, int]) -> None:
        self._tokens = tokens
        self._closing = closing
        self._opening = opening
        self.of: list[Scope] = []
        self.names_table: list[bool] = []
        self.clauses: list[str] = []
        self.common_tables: list[CommonTable] = []
        root = Scope(None)
        self._frames = [_Frame(root, root, len(tokens))]

    def step(self, index: int) -> None:
        """Read one token."""
        token, frame = self._tokens[index], self._frames[-1]
        if token.kind is not TokenKind.WORD and frame.clause not in _READ_CLAUSES and token.text not in _READ_SYMBOLS:
            self.of.append(frame.scope)  # the quick way for the values of a long list
            self.names_table.append(False)
            self.clauses.append(frame.clause)
            return
        if token.kind is TokenKind.WORD and not self._follows(index, "."):
            self._word(index, token.text.lower(), frame)
        elif token.is_symbol(",") and frame.clause in {"on", "using"}:
            frame.clause = "from"  # FROM a JOIN b ON …, c
        elif token.text == "|>" and token.kind is TokenKind.SYMBOL:
            frame.clause = "|>"
        expected = self._expects_table(index, frame)
        self.of.append(frame.scope)
        self.names_table.append(expected)
        self.clauses.append(frame.clause)
        if expected and frame.clause in {"from", "join", "update"}:
            self._table(index, frame)
        elif frame.clause == "with" and token.is_symbol("("):
            self._common_table(index, frame)
        if token.is_symbol("("):
            inner = _Frame(frame.scope, frame.scope, self._closing.get(index, len(self._tokens)))
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
        elif word == "from":
            frame.deletes = self._is_word(index - 1, "delete")
        elif word == "using" and (frame.clause == "into" or (frame.clause == "from" and frame.deletes)):
            word = "from"  # MERGE INTO t USING u, DELETE FROM t USING u
        frame.clause = word

    def _in_function(self, frame: _Frame) -> bool:
        return len(self._frames) > 1 and not frame.clause

    def _expects_table(self, index: int, frame: _Frame) -> bool:
        if frame.clause not in _TABLE_CLAUSES:
            return False
        return (
            (
                self._is_word(index - 1, *_TABLE_CLAUSES, "using", "lateral", "only", "exists", "recursive")
                and not self._follows(index - 1, ".")
            )
            or self._follows(index, ",")
            or (self._follows(index, "(") and len(self._frames) > 1)
        ) and not self._is_word(index, "lateral", "only")

    def _table(self, index: int, frame: _Frame) -> None:
        """Add the FROM item that begins here, under its alias."""
        parts: list[str] = []
        end = index
        subquery: tuple[int, int] | None = None
        if self._tokens[index].is_symbol("("):
            if not begins_query(self._tokens, self._closing, index):
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
            name, aliased = ".".join(parts) or None, alias is not None
            listed = aliased and self._is_symbol(after, "(") and after in self._closing
            columns = (after, self._closing[after]) if listed else None
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
        columns = None
        if self._is_symbol(before, ")"):
            columns = (self._opening[before], before)
            before = columns[0] - 1
        if (name := self._name(before)) is None or index not in self._closing:
            return
        start, end = frame.with_start, self._closing[index]
        own = self._union(index, end) if self._is_word(start + 1, "recursive") else None
        self.common_tables.append(CommonTable(name, start, end, index, columns, before, frame.end, own))

    def _union(self, opening: int, end: int) -> int | None:
        """Return the last UNION of the query in a bracket, or None."""
        found, at = None, opening + 1
        while at < end:
            if self._is_word(at, "union"):
                found = at
            at = self._closing.get(at, at) + 1
        return found

    def _name(self, index: int) -> str | None:
        return identifier(self._tokens[index]) if index < len(self._tokens) else None

    def _is_word(self, index: int, *words: str) -> bool:
        return 0 <= index < len(self._tokens) and self._tokens[index].is_word(*words)

    def _is_symbol(self, index: int, text: str) -> bool:
        return 0 <= index < len(self._tokens) and self._tokens[index].is_symbol(text)

    def _follows(self, index: int, text: str) -> bool:
        return self._is_symbol(index - 1, text)
