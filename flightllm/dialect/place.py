"""Where a statement stands: its session's schemas, temporary tables and user, and what tables there are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName

TableTest = Callable[[TableName], bool]


@dataclass(frozen=True, slots=True)
class Place:
    """What names and functions of a statement mean.

    `path` has the schemas in which unqualified names are looked up, the first of them takes new tables. `is_table`
    tells whether there is a table, whoever may read it; `columns_of` returns a table's columns, none where it cannot.
    """

    is_table: TableTest
    columns_of: Callable[[TableName], Sequence[str]]
    schemas: Callable[[], Sequence[str]]
    path: tuple[str, ...] = (DEFAULT_SCHEMA,)
    temporary: str = ""
    """The schema of the session's temporary tables."""
    has_temporary: bool = False
    """There are some."""
    user: str = ""
    version: str = ""
    catalog: str = CATALOG
    own_functions: frozenset[str] = frozenset()
    """Names, in lower case, of the functions in the configuration's folders: rules leave calls of these alone."""

    @property
    def usual(self) -> bool:
        """Tell whether unqualified names mean what they do without a session."""
        return self.path == (DEFAULT_SCHEMA,) and not self.has_temporary

    def found(self, name: str) -> TableName:
        """Return the table that an unqualified name means; where there is none, one to be made."""
        searched = (*([self.temporary] if self.has_temporary else []), *self.path)
        tables = (TableName(schema, name) for schema in searched)
        return next(filter(self.is_table, tables), TableName(self.path[0], name))
