"""Reflection: schemas, tables, views, columns and keys of the catalog."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import text
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import NoSuchTableError

from flightllm.alchemy.types import of_arrow

_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")
_TEMPORARY = "pg_temp_"
_SYSTEM = ("information_schema",)
_KEYS = """
SELECT c.table_name, c.constraint_name, c.constraint_type, k.column_name
FROM information_schema.table_constraints c JOIN information_schema.key_column_usage k
ON k.constraint_name = c.constraint_name AND k.table_schema = c.table_schema AND k.table_name = c.table_name
WHERE c.table_schema = :schema AND c.constraint_type <> 'FOREIGN KEY' ORDER BY 1, 2, k.ordinal_position
"""
_FOREIGN = """
SELECT r.table_name, r.constraint_name, r.update_rule, r.delete_rule, k.column_name,
    u.table_schema AS other_schema, u.table_name AS other_table, u.column_name AS other_column
FROM information_schema.referential_constraints r
JOIN information_schema.key_column_usage k
ON k.constraint_name = r.constraint_name AND k.table_schema = r.table_schema AND k.table_name = r.table_name
JOIN (SELECT DISTINCT constraint_schema, constraint_name, table_schema, table_name
      FROM information_schema.constraint_column_usage) o
ON o.constraint_name = r.constraint_name AND o.constraint_schema = r.constraint_schema
JOIN information_schema.key_column_usage u
ON u.constraint_name = r.unique_constraint_name AND u.table_schema = o.table_schema AND u.table_name = o.table_name
    AND u.ordinal_position = k.position_in_unique_constraint
WHERE r.table_schema = :schema ORDER BY 1, 2, k.ordinal_position
"""
_IN_SESSION = """
SELECT table_name, table_type FROM information_schema.tables WHERE table_schema LIKE 'pg_temp_%' ORDER BY 1
"""
_COLUMNS = """
SELECT column_name, is_nullable, column_default FROM information_schema.columns
WHERE table_schema = :schema AND table_name = :name
"""


def _cached(method: Callable[_Asked, _Found]) -> Callable[_Asked, _Found]:
    """Return a method that remembers its answers as SQLAlchemy's own do."""

    def ask(self: Any, connection: Any, *args: Any, **kw: Any) -> Any:
        return method(self, connection, *args, **kw)

    ask.__name__ = method.__name__
    ask.__annotations__ = {}  # SQLAlchemy 1.4 fails at annotations
    found: Callable[_Asked, _Found] = reflection.cache(ask)
    return found


class CatalogReader(DefaultDialect):
    """The part of the dialect that reads the catalog. Without a schema, tables are those of the current one."""

    @_cached
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return the schemas, without those of temporary tables."""
        del kw
        found = connection.execute(text("SELECT schema_name FROM information_schema.schemata ORDER BY 1")).scalars()
        return [name for name in found if not name.startswith(_TEMPORARY) and name not in _SYSTEM]

    @_cached
    def _tables(self, connection: Connection, **kw: Any) -> list[tuple[str, str, bool]]:
        """Return schema, name, and whether it is a view, of each table that lasts."""
        del kw
        found = self._driver(connection).adbc.adbc_get_objects(depth="tables").read_all().to_pylist()
        return sorted(
            (schema["db_schema_name"], table["table_name"], table["table_type"] == "VIEW")
            for catalog in found
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
        )

    @staticmethod
    def _driver(connection: Connection) -> Any:
        """Return the connection of the DB-API below."""
        return connection.connection.dbapi_connection

    def _schema(self, schema: str | None) -> str:
        return schema or self.default_schema_name or "public"

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the tables of a schema."""
        wanted = self._schema(schema)
        return [name for place, name, view in self._tables(connection, **kw) if place == wanted and not view]

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the views of a schema."""
        wanted = self._schema(schema)
        return [name for place, name, view in self._tables(connection, **kw) if place == wanted and view]

    @_cached
    def _temporary(self, connection: Connection, **kw: Any) -> dict[str, bool]:
        """Return the names of temporary tables and views of this session, and whether each is a view."""
        del kw
        return {row.table_name: row.table_type == "VIEW" for row in connection.execute(text(_IN_SESSION))}

    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the temporary tables of this session."""
        del schema
        return [name for name, is_view in self._temporary(connection, **kw).items() if not is_view]

    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the temporary views of this session."""
        del schema
        return [name for name, is_view in self._temporary(connection, **kw).items() if is_view]

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Return whether there is a table or view of this name, or without a schema a temporary one."""
        wanted = self._schema(schema)
        if any((place, name) == (wanted, table_name) for place, name, _ in self._tables(connection, **kw)):
            return True
        return schema is None and table_name in self._temporary(connection, **kw)

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        """Return whether there is a schema of this name."""
        return schema_name in self.get_schema_names(connection, **kw)

    def has_sequence(self, connection: Connection, sequence_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Return no: the server has no sequences."""
        del connection, sequence_name, schema, kw
        return False

    def has_index(
        self, connection: Connection, table_name: str, index_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return no: the server has no indexes over columns."""
        del connection, table_name, index_name, schema, kw
        return False

    @_cached
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return the columns of a table or view, with their types."""
        place = self._place(connection, table_name, schema, **kw)
        known = {
            row.column_name: row for row in connection.execute(text(_COLUMNS), {"schema": place, "name": table_name})
        }
        quoted = ".".join(map(self.identifier_preparer.quote_identifier, (place, table_name)))
        cursor = self._driver(connection).cursor()
        try:
            fields = cursor.schema(f"SELECT * FROM {quoted}")
        finally:
            cursor.close()
        return [
            {
                "name": field.name,
                "type": of_arrow(field.type),
                "nullable": field.name not in known or known[field.name].is_nullable != "NO",
                "default": known[field.name].column_default if field.name in known else None,
            }
            for field in fields
        ]

    def _place(self, connection: Connection, table_name: str, schema: str | None, **kw: Any) -> str:
        """Return the schema of a table; raise `NoSuchTableError` if no table has this name."""
        wanted = self._schema(schema)
        if any((place, name) == (wanted, table_name) for place, name, _ in self._tables(connection, **kw)):
            return wanted
        found = connection.execute(
            text("SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = :name"),
            {"name": table_name},
        )
        for row in found:
            if row.table_schema == schema or (schema is None and row.table_schema.startswith(_TEMPORARY)):
                return str(row.table_schema)
        raise NoSuchTableError(f"{schema}.{table_name}" if schema else table_name)

    @_cached
    def _keys(self, connection: Connection, schema: str, **kw: Any) -> dict[str, dict[tuple[str, str], list[str]]]:
        """Return the columns of each key, by its table, kind and name."""
        del kw
        found: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
        for row in connection.execute(text(_KEYS), {"schema": schema}):
            found[row.table_name][row.constraint_type, row.constraint_name].append(row.column_name)
        return found

    @_cached
    def _foreign(self, connection: Connection, schema: str, **kw: Any) -> dict[str, dict[str, list[Any]]]:
        """Return the rows of each foreign key, by its table and name."""
        del kw
        found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for row in connection.execute(text(_FOREIGN), {"schema": schema}):
            found[row.table_name][row.constraint_name].append(row)
        return found

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """Return the primary key of a table, which the server does not enforce."""
        place = self._place(connection, table_name, schema, **kw)
        for (kind, name), columns in self._keys(connection, place, **kw).get(table_name, {}).items():
            if kind == "PRIMARY KEY":
                return {"constrained_columns": list(columns), "name": name}
        return {"constrained_columns": [], "name": None}

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return the unique keys of a table, which the server does not enforce."""
        place = self._place(connection, table_name, schema, **kw)
        return [
            {"name": name, "column_names": list(columns)}
            for (kind, name), columns in self._keys(connection, place, **kw).get(table_name, {}).items()
            if kind == "UNIQUE"
        ]

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return the foreign keys of a table, which the server does not enforce."""
        place = self._place(connection, table_name, schema, **kw)
        found = self._foreign(connection, place, **kw).get(table_name, {})
        return [self._foreign_key(name, rows, schema) for name, rows in found.items()]

    def _foreign_key(self, name: str, rows: Sequence[Any], schema: str | None) -> dict[str, Any]:
        first = rows[0]
        rules = {"onupdate": first.update_rule, "ondelete": first.delete_rule}
        is_plain = schema is None and first.other_schema == self.default_schema_name
        return {
            "name": name,
            "constrained_columns": [row.column_name for row in rows],
            "referred_schema": None if is_plain else first.other_schema,
            "referred_table": first.other_table,
            "referred_columns": [row.other_column for row in rows],
            "options": {event: rule for event, rule in rules.items() if rule != "NO ACTION"},
        }

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return nothing: the server has no indexes over columns."""
        self._place(connection, table_name, schema, **kw)
        return []

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return nothing: the server refuses CHECK."""
        self._place(connection, table_name, schema, **kw)
        return []

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """Return nothing: tables have no comments."""
        self._place(connection, table_name, schema, **kw)
        return {"text": None}
