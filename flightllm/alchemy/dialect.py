"""The dialect, which tells SQLAlchemy about the server."""

import re
from types import ModuleType
from typing import Any, ClassVar

from adbc_driver_manager import AdbcStatusCode
from sqlalchemy import text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.exc import NoSuchTableError

from flightllm.alchemy import dbapi
from flightllm.alchemy.address import read_url
from flightllm.alchemy.compiler import (
    NO_INDEX,
    FlightLLMCompiler,
    FlightLLMDDLCompiler,
    FlightLLMIdentifierPreparer,
    FlightLLMTypeCompiler,
)
from flightllm.alchemy.reflection import CatalogReader
from flightllm.alchemy.types import SPECIFIC

_VERSION = re.compile(r"FlightLLM (\d+)\.(\d+)\.(\d+)")
_VIEW = "SELECT view_definition FROM information_schema.views WHERE table_schema = :schema AND table_name = :name"
_AUTOCOMMIT, _DEFAULT = "AUTOCOMMIT", "READ COMMITTED"
_GONE = (AdbcStatusCode.IO, AdbcStatusCode.UNAUTHENTICATED)
"""Statuses after which a connection is of no use: the server went away, or forgot the login when it started again."""


class FlightLLMContext(DefaultExecutionContext):
    """Runs one statement. Every cursor gets its rows while they are made, so one for a stream is no other."""

    def create_server_side_cursor(self) -> Any:
        """Return a cursor for a result that is read in parts."""
        return self.create_default_cursor()


class FlightLLMDialect(CatalogReader):
    """The dialect of `flightllm://…`.

    Each statement takes effect by itself. COMMIT does nothing, and a ROLLBACK after a change warns that it stays.
    """

    name = "flightllm"
    driver = "adbc"
    supports_statement_cache = True
    default_paramstyle = "qmark"
    supports_server_side_cursors = True
    execution_ctx_cls = FlightLLMContext
    statement_compiler = FlightLLMCompiler
    ddl_compiler = FlightLLMDDLCompiler
    type_compiler = type_compiler_cls = FlightLLMTypeCompiler  # the names of SQLAlchemy 1.4 and 2
    preparer = FlightLLMIdentifierPreparer
    colspecs: ClassVar = dict(SPECIFIC)
    max_identifier_length = 255

    supports_alter = False  # of tables: constraints cannot be added later
    supports_sequences = False
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = False
    supports_native_enum = False
    supports_smallserial = False
    supports_identity_columns = False
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_comments = False
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    postfetch_lastrowid = False
    preexecute_autoincrement_sequences = False
    insert_returning = True
    update_returning = True
    delete_returning = True
    update_returning_multifrom = True
    delete_returning_multifrom = True
    use_insertmanyvalues = True
    tuple_in_values = True
    div_is_floordiv = True
    _backslash_escapes = False
    _supports_jsonb_subscripting = False

    def __init__(self, json_serializer: Any = None, json_deserializer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the DB-API module."""
        return dbapi

    dbapi = import_dbapi  # the name of SQLAlchemy 1.4

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `dbapi.connect`."""
        target = read_url(url)
        return [], {"uri": target.uri, "database": dict(target.database), "connection": dict(target.connection)}

    def connect(self, **kwargs: Any) -> Any:
        """Connect; `db_kwargs` and `conn_kwargs` are further options of ADBC, and `token` is an API token."""
        database, connection = dict(kwargs.pop("database", {})), dict(kwargs.pop("connection", {}))
        token = kwargs.pop("token", None)
        if token is not None:
            database["adbc.flight.sql.authorization_header"] = f"Bearer {token}"
        database.update(kwargs.pop("db_kwargs", {}))
        connection.update(kwargs.pop("conn_kwargs", {}))
        kwargs.pop("autocommit", None)  # always so
        return dbapi.connect(kwargs.pop("uri"), database, connection, **kwargs)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...] | None:
        found = _VERSION.match(str(connection.exec_driver_sql("SELECT version()").scalar()))
        return None if found is None else tuple(int(part) for part in found.groups())

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())

    def get_default_isolation_level(self, dbapi_conn: Any) -> str:
        """Return the level of a new connection."""
        del dbapi_conn
        return _DEFAULT

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[str]:
        """Return the levels that a connection can ask for; both mean that each statement takes effect by itself."""
        del dbapi_conn
        return [_AUTOCOMMIT, _DEFAULT]

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        """Return what the connection asked for."""
        return _AUTOCOMMIT if dbapi_connection.autocommit else _DEFAULT

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Note whether a rollback after a change must warn."""
        dbapi_connection.autocommit = level == _AUTOCOMMIT

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Return whether the connection asked for autocommit."""
        return bool(dbapi_conn.autocommit)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement. That of an index over columns is not sent."""
        if statement != NO_INDEX:
            super().do_execute(cursor, statement, parameters, context)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Return whether the server answers on this connection."""
        cursor = dbapi_connection.cursor()
        try:
            cursor.execute(self._dialect_specific_select_one)
            cursor.fetchall()
        finally:
            cursor.close()
        return True

    def is_disconnect(self, e: BaseException, connection: Any, cursor: Any) -> bool:
        """Return whether an error means that the connection is of no more use."""
        del connection, cursor
        return isinstance(e, dbapi.Error) and e.status_code in _GONE

    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """Return the query of a view, if the user can see it.

        Raises:
            NoSuchTableError: there is no such view.
        """
        place = self._place(connection, view_name, schema, **kw)
        found = connection.execute(text(_VIEW), {"schema": place, "name": view_name}).scalar()
        if found is None:
            raise NoSuchTableError(view_name)
        return str(found)
