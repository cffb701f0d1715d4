"""Run statements about the catalog in an embedded DuckDB, which plans correlated subqueries as PostgreSQL does."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import CancelledError, FlightLLMError, LimitExceededError, SqlError, UnsupportedError
from flightllm.pg_catalog.columns import result_field
from flightllm.pg_catalog.data import Relation, relations
from flightllm.pg_catalog.facts import Session
from flightllm.pg_catalog.functions import ENGINE_TYPES, Function, Functions
from flightllm.pg_catalog.growing import GROWING, HELPERS
from flightllm.pg_catalog.keywords import RESERVED
from flightllm.pg_catalog.rows import Rows
from flightllm.pg_catalog.translation import Translated
from flightllm.pg_catalog.views import local_name, view_query
from flightllm.sql.literals import text_literal

_ROWS: Final = 8192
_MOST_MEMORY: Final = 256 << 20
"""The memory that one query takes at most, in bytes: all such queries together have no limit of their own."""
_POLL_SECONDS: Final = 0.05
_MOST_TEXT: Final = 32 << 20
"""The characters that a function gives for the rows of one batch: the engine's limit does not count them."""
_ARROW: Final = {
    "oid": pa.uint32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "text": pa.string(),
    "bool": pa.bool_(),
}
_IN_SCHEMA: Final = "|".join(name for schema, name in relations() if schema == "information_schema")
_OWN_NAME: Final = re.compile(
    rf"(?<=\")with |\bi_(?=(?:{_IN_SCHEMA})\b)|\bc_(?=pg_)|\bf_(?:(?:in|out)_(?=reg))?(?=\w+\()"
)
"""The beginnings that this package gives the names of relations, of queries of WITH and of functions."""
_Call = Callable[..., pa.Array]
_ARITIES: Final[Mapping[int, Callable[[_Call], _Call]]] = {
    1: lambda call: lambda a: call(a),  # noqa: PLW0108
    2: lambda call: lambda a, b: call(a, b),  # noqa: PLW0108
    3: lambda call: lambda a, b, c: call(a, b, c),  # noqa: PLW0108
    4: lambda call: lambda a, b, c, d: call(a, b, c, d),  # noqa: PLW0108
}
"""The engine counts the parameters of a function of Python."""
_ACTING: Final = frozenset(("pg_cancel_backend", "pg_terminate_backend", "set_config"))
"""Functions that act: the engine must not call them while it plans."""
_MOST_ITEMS: Final = 100_000
_TOO_LONG: Final = f"generate_series has more than {_MOST_ITEMS:,} values: ask for fewer in a query about the catalog"
_MACROS: Final[Mapping[str, str]] = {
    "pg_join": """CREATE MACRO pg_join(x, s, n := NULL) AS CASE WHEN x IS NOT NULL AND s IS NOT NULL THEN coalesce(
    list_aggregate(CASE WHEN n IS NULL THEN x::VARCHAR[] ELSE
    list_transform(x::VARCHAR[], lambda e: coalesce(e, n)) END, 'string_agg', s), '') END""",
    # A macro writes its argument each time that it names it; a lambda does not.
    "pg_text": """CREATE MACRO pg_text(x) AS list_transform([x], lambda e: CASE WHEN ends_with(typeof(e), '[]')
    THEN '{' || replace(trim(e::VARCHAR, '[]'), ', ', ',') || '}' ELSE e::VARCHAR END)[1]""",
    "pg_expandarray": "CREATE MACRO pg_expandarray(x) AS list_transform(x, lambda e, i: {'x': e, 'n': i::INTEGER})",
    # The engine makes a list of constants while it plans, without its limit of memory; an error keeps it from that.
    "pg_series": f"""CREATE MACRO pg_series(a, b, step := 1) AS generate_series(a::BIGINT, CASE
    WHEN abs(b::BIGINT - a::BIGINT) > {_MOST_ITEMS} * abs(step::BIGINT) THEN error('{_TOO_LONG}')::BIGINT
    ELSE b::BIGINT END, step::BIGINT)""",
    "pg_name_of_type": """CREATE MACRO pg_name_of_type(t) AS CASE WHEN t IN ('"NULL"', 'NULL') THEN 'unknown'
    WHEN starts_with(t, 'DECIMAL') THEN 'numeric' ELSE coalesce(map {'VARCHAR': 'text', 'DOUBLE': 'double precision',
    'FLOAT': 'real', 'TINYINT': 'smallint', 'UINTEGER': 'oid', 'UBIGINT': 'numeric', 'HUGEINT': 'numeric',
    'BLOB': 'bytea', 'TIMESTAMP': 'timestamp without time zone', 'TIME': 'time without time zone'}[t], lower(t)) END""",
    "pg_typeof_of": """CREATE MACRO pg_typeof_of(t) AS pg_name_of_type(rtrim(t, '[]')) ||
    CASE WHEN ends_with(t, '[]') THEN '[]' ELSE '' END""",
    "pg_array_remove": "CREATE MACRO pg_array_remove(x, v) AS list_filter(x, lambda e: e IS DISTINCT FROM v)",
}
"""PostgreSQL's functions over values of any type that the engine lacks."""


class Engine:
    """One database in memory, for one statement. It can read and write nothing outside.

    Each engine must be closed: its functions refer to it, and only `close` frees them.
    """

    def __init__(self, rows: Rows, session: Session, translated: Translated, memory: int) -> None:
        """Fill the database with the relations that the statement reads; `memory` is the server's limit in bytes.

        Raises:
            UnsupportedError: the package that runs such statements is not installed, or a relation has no rows here.
        """
        try:
            import duckdb
        except ImportError as error:
            raise UnsupportedError(
                "queries about pg_catalog need the extra `postgres`: pip install 'flightllm[postgres]'"
            ) from error
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": "1",
                "memory_limit": f"{max(min(memory, _MOST_MEMORY) >> 20, 64)}MB",
                "integer_division": "true",  # as in PostgreSQL
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "temp_directory": "",
            },
        )
        self._rows = rows
        self._session = session
        self._functions: Mapping[str, Function] = {**Functions(rows, session).by_name, **GROWING, **HELPERS}
        self._stopped = False
        self._raised: FlightLLMError | None = None
        self._made: set[str] = set()
        self._sql, self._kinds = translated.sql, translated.kinds
        try:
            with self._mapped():
                self._prepare(translated)
                self._connection.execute("SET lock_configuration = true")
        except BaseException:
            self.close()
            raise

    def _prepare(self, translated: Translated) -> None:
        needed = set(translated.functions)
        views = list[tuple[str, str]]()
        waiting = sorted(translated.relations, key=lambda one: one.oid)
        while waiting:
            self._add(waiting.pop(), waiting, views, needed)
        for name in sorted(needed & set(self._functions)):
            self._create(name, self._functions[name])
        texts = " ".join((translated.sql, *(query for _, query in views)))
        for macro in _named_macros(texts):
            self._connection.execute(macro)
        if "current_schemas" in needed:
            path = ", ".join(map(text_literal, self._session.path)) or "NULL"
            self._connection.execute(
                f"CREATE MACRO pg_schemas(x) AS CASE WHEN x THEN ['pg_catalog', {path}] ELSE [{path}] END"
            )
        if "pg_get_keywords" in needed:
            words = pa.table({"word": sorted(RESERVED), "catcode": ["R"] * len(RESERVED)})
            self._connection.register("c_pg_get_keywords", words)
        for name, query in reversed(views):
            self._connection.execute(f'CREATE TEMP VIEW "{name}" AS {query}')

    def _add(self, relation: Relation, waiting: list[Relation], views: list[tuple[str, str]], needed: set[str]) -> None:
        """Register a relation's rows, or remember its view and what the view needs."""
        name = local_name(relation)
        if name in self._made:
            return
        self._made.add(name)
        rows = self._rows.relation(relation.name, self._session) if relation.schema == "pg_catalog" else None
        if rows is not None:
            self._connection.register(name, rows)
            return
        query = view_query(relation)
        if query is None:
            raise UnsupportedError(f"the relation {relation.schema}.{relation.name} is not supported here")
        views.append((name, query))
        waiting += [one for one in relations().values() if f" {local_name(one)} " in query]
        needed.update(one for one in self._functions if f"f_{one}(" in query)

    def _create(self, name: str, function: Function) -> None:
        kinds = function.parameters or ("int",)  # the engine calls no function of Python without a column
        from duckdb import func

        call = _ARITIES[len(kinds)](self._over_columns(function))
        target = f"f_{name}" if function.parameters else f"f_{name}_of"
        self._connection.create_function(
            target,
            call,
            [ENGINE_TYPES[kind] for kind in kinds],
            ENGINE_TYPES[function.returns],
            type=func.ARROW,
            null_handling=func.SPECIAL,
            side_effects=name in _ACTING,
        )
        if not function.parameters:
            self._connection.execute(f"CREATE MACRO f_{name}() AS {target}(1)")

    def _over_columns(self, function: Function) -> Callable[..., pa.Array]:
        count, kind, required = len(function.parameters), _ARROW[function.returns], function.required

        def value(given: tuple[Any, ...]) -> object:
            if function.strict and None in given[:required]:
                return None
            return function.call(*given)

        def call(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                if not count:
                    return pa.array([function.call()] * len(columns[0]), kind)
                known: dict[tuple[Any, ...], object] = {}
                found, size = list[object](), 0
                for given in zip(*(column.to_pylist() for column in columns), strict=True):
                    if given not in known:
                        known[given] = value(given)
                    found.append(known[given])
                    size += len(text) if isinstance(text := known[given], str) else 0
                    if size > _MOST_TEXT:
                        raise LimitExceededError("a query about the catalog makes too much text: make shorter texts")
                    if self._stopped:
                        raise CancelledError("the statement was cancelled")
                return pa.array(found, kind)
            except FlightLLMError as error:
                self._raised = error
                raise

        return call

    def schema(self, stopped: Callable[[], bool]) -> pa.Schema:
        """Return the names and types of the result; `stopped` is asked now and then, and ends the work.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        with self._interrupted(stopped), self._mapped():
            result = self._connection.sql(self._sql)
            if result is None:
                raise UnsupportedError("the statement returns no rows")
            names = list(result.columns)
            types = self._connection.sql(f"SELECT * FROM ({self._sql}) AS q LIMIT 0").to_arrow_table().schema.types
        return pa.schema(
            [result_field(name, kind, self._kinds.get(name)) for name, kind in zip(names, types, strict=True)]
        )

    def run(self, schema: pa.Schema, stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        """Yield the rows under the names of `schema`; `stopped` is asked now and then, and ends the statement.

        Raises:
            FlightLLMError: the statement fails, or it was stopped.
        """
        with self._interrupted(stopped), self._mapped():
            reader = self._connection.sql(self._sql).to_arrow_reader(_ROWS)
            for batch in reader:
                if stopped():
                    raise CancelledError("the statement was cancelled")
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def close(self) -> None:
        """Forget the database. Idempotent."""
        self._connection.close()

    @contextmanager
    def _interrupted(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Interrupt the engine once `stopped()` is true."""
        done = Event()
        context = copy_context()  # a thread starts without the token that ends the work of planning

        def watch() -> None:
            while not done.wait(_POLL_SECONDS):
                if context.run(stopped):
                    self._stopped = True
                    with suppress(Exception):
                        self._connection.interrupt()

        watcher = Thread(target=watch, name="catalog-query", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn the engine's errors into those of this server."""
        import duckdb

        try:
            yield
        except duckdb.InterruptException as error:
            raise CancelledError("the statement was cancelled") from error
        except duckdb.OutOfMemoryException as error:
            raise LimitExceededError("a query about the catalog needs more memory than one query can take") from error
        except duckdb.Error as error:
            if self._raised is not None:
                raise self._raised from error
            raise SqlError(_plain(error)) from error


def _named_macros(text: str) -> Iterator[str]:
    """Yield the definitions of the macros that a text names, and of those that these name."""
    texts, named = [text], set[str]()
    while texts:
        text = texts.pop()
        found = {name for name in _MACROS if f"{name}(" in text} - named
        named |= found
        texts += [_MACROS[name] for name in found]
    yield from (macro for name, macro in _MACROS.items() if name in named)


def _plain(error: Exception) -> str:
    """Return the first line of the engine's message, without the names that only the engine knows."""
    line = str(error).strip().splitlines()[0]
    before, found, after = line.partition(" Error: ")
    if found and before.replace(" ", "").isalpha():
        line = after
    return _OWN_NAME.sub("", line)
