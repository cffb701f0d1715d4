"""Describe a statement's session: its schemas, temporary tables, user, and the tables that exist."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName

TableTest = Callable[[TableName], bool]


@dataclass(frozen=True, slots=True)
class NameContext:
    """The session in which the names and functions of a statement are resolved.

    Unqualified names are looked up in the schemas of `path`; the first of these schemas takes new tables. `is_table`
    tells whether a table exists, even if the user cannot read it. `columns_of` returns a table's columns; the result is
    empty if they are unknown.
    """

    is_table: TableTest
    columns_of: Callable[[TableName], Sequence[str]]
    schemas: Callable[[], Sequence[str]]
    path: tuple[str, ...] = (DEFAULT_SCHEMA,)
    temporary: str = ""
    """The schema of the session's temporary tables."""
    has_temporary: bool = False
    """The session has temporary tables."""
    user: str = ""
    version: str = ""
    catalog: str = CATALOG
    own_functions: frozenset[str] = frozenset()
    """Lower-case names of the functions in the configuration's folders: rules do not change calls of these."""

    @property
    def usual(self) -> bool:
        """Return whether unqualified names mean the same as without a session."""
        return self.path == (DEFAULT_SCHEMA,) and not self.has_temporary

    def found(self, name: str) -> TableName:
        """Return the table that an unqualified name means; if no such table exists, the name for a new one."""
        searched = (*([self.temporary] if self.has_temporary else []), *self.path)
        tables = (TableName(schema, name) for schema in searched)
        return next(filter(self.is_table, tables), TableName(self.path[0], name))
