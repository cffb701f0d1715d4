"""A session's search path and its temporary tables."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

import datafusion
import pyarrow as pa

from flightllm import __version__
from flightllm.catalog import Catalog
from flightllm.catalog.store import TableStore
from flightllm.common.json_columns import ColumnTypes
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TEMPORARY_PREFIX, TableName
from flightllm.dialect import NameContext, Rewritten, rewrite, sent_texts
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import tokenize

VERSION = f"FlightLLM {__version__} (DataFusion {datafusion.__version__})"
_SYSTEM = ("pg_catalog", "information_schema")
"""The schemas of the catalog's tables, which clients such as `postgres_fdw` set as their whole search path."""
_TEMPORARY = ("temp", "temporary")


class SessionPlace:
    """One session's search path and temporary schema. `catalog` returns the catalog as the session's user sees it.

    `own_functions` holds the names of functions in configured folders. Thread-safe.
    """

    def __init__(
        self, store: TableStore, catalog: Callable[[], Catalog], user: str, own_functions: frozenset[str]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._user = user
        self._own_functions = own_functions
        self._path: tuple[str, ...] = (DEFAULT_SCHEMA,)
        self._own = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        """The name of the temporary schema; other sessions cannot guess it."""
        self.version = VERSION
        """The text that `version()` returns."""
        self._opened = False
        self._closed = False
        self._lock = Lock()

    @property
    def temporary(self) -> str:
        """Return the schema of the session's temporary tables, or "" if the session never had any."""
        return self._own if self._opened else ""

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the schemas in which names are looked up; the schema of temporary tables comes first."""
        return (self.temporary, *self._path)

    def read(self, text: ParsedText, dialect: str, parameters: pa.Schema | None = None) -> Rewritten:
        """Translate a statement from a dialect to DataFusion's, and resolve its table names for this session.

        `parameters` are the types of the values that are bound to the statement; None before they are known.
        The first statement that makes a temporary table also opens the temporary schema.

        Raises:
            FlightLLMError: the statement cannot be parsed.
        """
        found = rewrite(text, replace(self._place(), parameters=parameters), dialect)
        if (
            found.edits
            and not self._opened
            and self._own in found.text
            and _makes_temporary(sent_texts(found.sent, dialect).text)
        ):
            self._open()
        return found

    def _place(self) -> NameContext:
        return NameContext(
            is_table=self._store.entries.__contains__,
            columns_of=self._columns_of,
            view_of=self._view_of,
            restricted=self._restricted,
            ai_views=self._ai_views,
            names_compared=self._store.compared_tables.named_in,
            names_bytes=self._store.compared_tables.with_bytes_in,
            names_spelt=self._store.spellings.named_in,
            tables_spelt=self._tables_spelt,
            schemas=lambda: [*self._catalog().schemas(), "information_schema"],
            path=self._path,
            temporary=self._own,
            has_temporary=self._opened,
            databases=self._databases,
            user=self._user,
            version=self.version,
            own_functions=self._own_functions,
        )

    def _columns_of(self, name: TableName) -> Mapping[str, pa.DataType]:
        try:
            schema = self._catalog().table(name).schema
        except FlightLLMError:
            return {}
        found = ColumnTypes(zip(schema.names, schema.types, strict=True))
        found.schema = schema
        return found

    def _databases(self) -> list[str]:
        return self._catalog().databases()

    def _restricted(self) -> list[TableName]:
        return [name for name, entry in self._catalog().entries.items() if entry.restricted]

    def _ai_views(self) -> list[TableName]:
        return [name for name, entry in self._catalog().entries.items() if entry.kind == "ai_view"]

    def _tables_spelt(self, schema: str, name: str) -> list[TableName]:
        return [one for one in self._store.spellings.tables(schema, name) if self._is_known(one)]

    def _is_known(self, name: TableName) -> bool:
        """Return whether the user can know that a table exists, and so can learn how its name is spelt."""
        try:
            self._catalog().table(name)
        except NotFoundError:
            return False
        except FlightLLMError:
            return True
        return True

    def _view_of(self, name: TableName) -> str:
        entry = self._catalog().entries.get(name)
        return "" if entry is None else entry.query or entry.restricted

    def _open(self) -> None:
        """Create the schema of temporary tables, unless it exists."""
        with self._lock:
            if self._closed:
                raise InvalidInputError("the session is closed and its temporary tables are gone: open a new session")
            self._store.open_temporary(self._own)
            self._opened = True

    def uploaded(self, table: str, schema: str, *, made: bool, temporary: bool, added: bool = False) -> TableName:
        """Return the name of the table that an upload writes to.

        `made` means that the upload creates the table. `added` means that it adds rows to a table, whose name can then
        be spelt in another case, as in a statement.
        """
        if temporary:
            self._open()
            return TableName(self._own, table)
        if made and not schema:
            return TableName(self._path[0], table)
        if schema == "pg_temp":
            schema = self._own
        name = TableName(schema, table) if schema else self._place().found(table)
        return self._spelt(name, table, schema) if added else name

    def _spelt(self, name: TableName, table: str, schema: str) -> TableName:
        """Return the one table whose name is equal without case, unless a table has the exact name."""
        if self._is_known(name):
            return name
        for searched in (schema,) if schema else self._path:
            small = TableName(searched.lower(), table.lower())
            alike = [*self._tables_spelt(searched, table), *([small] if self._is_known(small) else [])]
            if len(alike) == 1:
                return alike[0]
        return name

    def check(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those schemas of a search path that the user can see. As in PostgreSQL, the others are ignored.

        Raises:
            NotFoundError: the user can see no schema of the path.
        """
        known = [*self._catalog().schemas(), *_SYSTEM]
        if list(names) == [CATALOG] and CATALOG not in known:
            return (DEFAULT_SCHEMA,)
        found = tuple(dict.fromkeys(name for name in names if name in known))
        if not found:
            raise NotFoundError(
                f"there is no schema {', '.join(map(repr, names)) or repr('')}: see SHOW SCHEMAS, or write CREATE"
                " SCHEMA first"
            )
        return found

    def go_to(self, names: Sequence[str]) -> None:
        """Look up unqualified names in these schemas from now on.

        Raises:
            NotFoundError: see `check`.
        """
        self._path = self.check(names)

    def reset(self) -> None:
        """Look up unqualified names in the default schema again."""
        self._path = (DEFAULT_SCHEMA,)

    def options(self) -> dict[str, str]:
        """Return the catalog and schema as the protocol's session options."""
        return {"catalog": CATALOG, "schema": self._path[0]}

    def set_option(self, key: str, value: str) -> None:
        """Change the schema; the catalog is fixed.

        Raises:
            NotFoundError: there is no such schema or catalog.
        """
        if key == "schema":
            self.go_to([value])
        elif value != CATALOG:
            raise NotFoundError(f"there is no catalog {value!r}; the only one is {CATALOG!r}")

    @property
    def path(self) -> tuple[str, ...]:
        """Return the schemas of the search path."""
        return self._path

    def restore(self, path: tuple[str, ...]) -> None:
        """Look up unqualified names in the schemas of another place's `path`."""
        self._path = path

    def close(self) -> None:
        """Remove the temporary tables. Idempotent."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, False
        if opened:
            self._store.drop_temporary(self._own)


def _makes_temporary(sql: str) -> bool:
    tokens = tokenize(sql)
    return tokens[0].is_word("create") and any(token.is_word(*_TEMPORARY) for token in tokens[1:5])
