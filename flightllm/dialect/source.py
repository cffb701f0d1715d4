"""Read a text for the rules, together with the session of its statement: its schemas, tables and user."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName, table_name
from flightllm.errors import SqlError
from flightllm.sql.calls import follows_keyword
from flightllm.sql.parameters import parameter_types
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import Known
from flightllm.sql.tokens import TokenKind

TableTest = Callable[[TableName], bool]
_LISTS = ("into", "table", "view", "with", "using")
"""The clauses in which brackets enclose names of columns: `INSERT INTO t (a)`, `WITH q (a) AS …`."""


@dataclass(frozen=True, slots=True)
class NameContext:
    """The session in which the names and functions of a statement are resolved.

    Unqualified names are looked up in the schemas of `path`; the first of these schemas takes new tables. `is_table`
    tells whether a table exists, even if the user cannot read it. `columns_of` returns a table's columns with their
    types; the result is empty if they are unknown.
    """

    is_table: TableTest
    columns_of: Callable[[TableName], Mapping[str, pa.DataType]]
    schemas: Callable[[], Sequence[str]]
    view_of: Callable[[TableName], str] = lambda _: ""
    """Returns the query of a view, or of the row filters and masks of a table; empty for any other table."""
    restricted: Callable[[], Sequence[TableName]] = tuple
    """Returns the tables that the user sees through row filters or masks."""
    ai_views: Callable[[], Sequence[TableName]] = tuple
    """Returns the views with AI calls that the user can see: DataFusion knows them as tables."""
    parameters: pa.Schema | None = None
    """The types of the values that are bound to the statement; None before they are known."""
    names_compared: Callable[[ParsedText], bool] = lambda _: False
    """Returns whether a text can name a table that has a column of intervals or arrays."""
    names_bytes: Callable[[ParsedText], bool] = lambda _: False
    """Returns whether a text can name a table that has a column of bytes."""
    names_spelt: Callable[[ParsedText], bool] = lambda _: False
    """Returns whether a text can have an unquoted name of a table, column or field whose name has capitals."""
    tables_spelt: Callable[[str, str], Sequence[TableName]] = lambda *_: ()
    """Returns the tables with capitals in their names that have a schema's and a table's name, compared without case.

    The user can know of these tables.
    """
    path: tuple[str, ...] = (DEFAULT_SCHEMA,)
    temporary: str = ""
    """The schema of the session's temporary tables."""
    has_temporary: bool = False
    """The session has temporary tables."""
    databases: Callable[[], Sequence[str]] = tuple
    """Returns the attached databases that the user can know of."""
    user: str = ""
    version: str = ""
    catalog: str = CATALOG
    own_functions: frozenset[str] = frozenset()
    """Lower-case names of the functions in the configuration's folders: rules do not change calls of these."""

    @property
    def usual(self) -> bool:
        """Return whether unqualified names mean the same as without a session."""
        return self.path == (DEFAULT_SCHEMA,) and not self.has_temporary

    @property
    def searched(self) -> tuple[str, ...]:
        """Return the schemas in which an unqualified name is looked up, in their order."""
        return (*([self.temporary] if self.has_temporary else []), *self.path)

    def found(self, name: str) -> TableName:
        """Return the table that an unqualified name means; if no such table exists, the name for a new one."""
        tables = (TableName(schema, name) for schema in self.searched)
        return next(filter(self.is_table, tables), TableName(self.path[0], name))


class Source(ParsedText):
    """A text after one set of edits, with the session of its statement."""

    def __init__(self, text: ParsedText, place: NameContext) -> None:
        super().__init__(text.sql)
        self.tokens = text.tokens
        self.place = place
        self.dialect = ""
        """The dialect that the statement is written in; empty in the default one."""

    @property
    def known(self) -> Known:
        """Return the session's tables, views and functions."""
        given = self.place.parameters
        types = parameter_types(self, given) if given is not None else {}
        return Known(self.columns_of, self.view_of, self.place.own_functions, types)

    def view_of(self, parts: Sequence[str]) -> str:
        """Return the query of the view that the parts of a name mean; empty if there is no such view."""
        name = self._found(parts)
        return "" if name is None else self.place.view_of(name)

    def columns_of(self, parts: Sequence[str]) -> Mapping[str, pa.DataType]:
        """Return the columns of the table that the parts of a name mean; empty if the table is unknown."""
        name = self._found(parts)
        return {} if name is None else self.place.columns_of(name)

    def _found(self, parts: Sequence[str]) -> TableName | None:
        try:
            return self.place.found(parts[0]) if len(parts) == 1 else table_name(parts)
        except SqlError:
            return None

    @cached_property
    def may_be_spelt(self) -> bool:
        """Return quickly whether an unquoted name of the text can mean a name with capitals."""
        return self.place.names_spelt(self) or self._quotes_capitals()

    def _quotes_capitals(self) -> bool:
        """Return whether the text has a name both in quotes with capitals, and without quotes."""
        if '"' not in self.sql and "`" not in self.sql:
            return False
        written = {token.text for token in self.tokens if token.kind is TokenKind.QUOTED}
        capitals = {folded for text in written if (folded := text.casefold()) != text}
        return bool(capitals) and not capitals.isdisjoint(word.casefold() for word in self.words)

    def begins_expression(self, index: int) -> bool:
        """Return whether an expression begins at a token; a table, its alias, or the name of a CTE is not one."""
        before = self.tokens[index - 1] if index else None
        if before is None or self.scopes.names_table[index]:
            return False
        if before.kind is TokenKind.SYMBOL:
            return before.text not in {".", ")", "]", "}"}
        return follows_keyword(self.tokens, index)

    def names_column(self, index: int) -> bool:
        """Return whether a name only names a column: in a list, as in `INSERT INTO t (a)`, or before the `=` of SET.

        A value after DEFAULT in the list of a table's columns names no column.
        """
        clauses, inner = self.scopes.clauses, index
        if self.is_word(index - 1, "default"):
            return False
        if clauses[index] == "set":
            listed = self.is_word(index - 1, "set") or self.is_symbol(index - 1, ",")
            return listed and self.is_symbol(index + 1, "=")
        while not clauses[inner]:
            if (opening := self.scopes.around[inner]) is None:
                return False
            inner = opening
        return inner < index and (clauses[inner] in _LISTS or self.is_word(inner - 1, "insert"))

    def called(self, index: int) -> str | None:
        """Return the lower-case name of the function that an expression calls at a token, or None.

        The result is also None for a function of the server's own folders: such a name means only that function.
        """
        token = self.tokens[index]
        if token.kind is not TokenKind.WORD or not self.is_symbol(index + 1, "(") or index + 1 not in self.closing:
            return None
        name = token.text.lower()
        return name if name not in self.place.own_functions and self.begins_expression(index) else None
