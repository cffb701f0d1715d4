"""The protocol over a real database, in messages made by hand."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from datafusion import SessionContext, udf
from datafusion.substrait import Producer
from pyarrow import flight

from flightllm.database import Database
from flightllm.flight.messages import flight_message, pack, sql_message, unpack
from flightllm.flight.server import FlightSqlServer
from tests.flight_messages import act, count, descriptor, fetch, prepare, prepared, put, query

MAKE = (
    """CREATE TABLE people AS SELECT * FROM (VALUES
        (1, 'Ann', DATE '2024-01-02', 1.5), (2, NULL, NULL, NULL)) AS v(id, name, day, score)""",
    "CREATE TABLE likes AS SELECT * FROM (VALUES (1, 'tea'), (1, 'cats')) AS v(person, thing)",
    "CREATE VIEW fans AS SELECT name, thing FROM people JOIN likes ON person = id",
)

CANCELLED = (flight.FlightCancelledError, KeyboardInterrupt)
"""What pyarrow makes of the status CANCELLED: it may take it for Ctrl-C."""


@pytest.fixture
def bare(server: FlightSqlServer) -> Iterator[flight.FlightClient]:
    """Connect a bare Flight client."""
    with flight.connect(server.uri) as client:
        yield client


@pytest.fixture
def tables(database: Database) -> None:
    """Make two tables and a view."""
    for statement in MAKE:
        database.session().update(statement)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM people",
        "SELECT * FROM fans",
        "SELECT id, 1 AS one, NULL AS nothing, now() AS at FROM people WHERE id < 0",
        """SELECT name, count(*), sum(score), min(day), array_agg(thing)
            FROM people LEFT JOIN likes ON id = person GROUP BY name""",
        "SELECT id FROM people UNION ALL SELECT 7 UNION SELECT person FROM likes",
        "SELECT id, row_number() OVER (ORDER BY id), CASE WHEN id = 1 THEN 'a' END FROM people",
        "SELECT id, CASE WHEN id = 1 THEN 0 ELSE 0.5 END, CASE WHEN id = 1 THEN id ELSE name END AS x FROM people",
        "SELECT id, CASE WHEN ai_filter('Is {name} good?', name) THEN 0 ELSE 0.5 END AS x FROM people",
        "SELECT CASE WHEN id = 1 THEN id ELSE ai_gen('Say {name}', name) END FROM people",
        "SELECT id FROM people UNION ALL SELECT id + 0.5 FROM people",
        "SELECT sum(CASE WHEN id = 1 THEN id ELSE 0.5 END) FROM people GROUP BY CASE id WHEN 1 THEN 0 ELSE 0.5 END",
        "SELECT p.id, l.* FROM people p FULL JOIN likes l ON p.id = l.person",
        "SELECT a.id, b.id FROM people a CROSS JOIN people b",
        "WITH w AS (SELECT named_struct('a', id) AS s, [id] AS l FROM people) SELECT s, l, s['a'] FROM w",
        "SELECT ai_gen('Say {name}', name) FROM people",
        "SELECT id, ai_classify(name, ['x', 'y']), ai_score('How {name}?', name) AS s FROM people WHERE id = 1",
        "SELECT thing, count(*) FROM likes WHERE ai_filter('Is {thing} good?', thing) GROUP BY thing",
        "EXPLAIN SELECT * FROM people",
        "EXPLAIN (FORMAT json) SELECT ai_gen('Say {name}', name) FROM people",
        "SHOW flightllm.all",
        "SELECT * FROM system.queries",
        "SELECT table_name FROM information_schema.tables",
    ],
)
def test_one_schema_everywhere(bare: flight.FlightClient, sql: str) -> None:
    """Prepare, GetSchema, GetFlightInfo and the stream agree in names, types, nullability and metadata."""
    answer = prepare(bare, sql)
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    for command in (query(sql), prepared(answer.prepared_statement_handle)):
        info = bare.get_flight_info(command)
        read = bare.do_get(info.endpoints[0].ticket).read_all()
        for schema in (bare.get_schema(command).schema, info.schema, read.schema):
            assert schema.equals(told, check_metadata=True)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("CommandGetSqlInfo", {}),
        ("CommandGetCatalogs", {}),
        ("CommandGetDbSchemas", {}),
        ("CommandGetTables", {}),
        ("CommandGetTables", {"include_schema": True}),
        ("CommandGetTableTypes", {}),
        ("CommandGetXdbcTypeInfo", {}),
        ("CommandGetPrimaryKeys", {"table": "people"}),
        ("CommandGetExportedKeys", {"table": "people"}),
        ("CommandGetImportedKeys", {"table": "people"}),
        ("CommandGetCrossReference", {"pk_table": "people", "fk_table": "likes"}),
    ],
)
def test_one_schema_of_metadata(bare: flight.FlightClient, name: str, fields: dict[str, object]) -> None:
    """Metadata commands too have one schema."""
    command = descriptor(name, **fields)
    info = bare.get_flight_info(command)
    read = bare.do_get(info.endpoints[0].ticket).read_all()
    assert info.schema.equals(bare.get_schema(command).schema, check_metadata=True)
    assert info.schema.equals(read.schema, check_metadata=True)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "sql", ["SELECT id + ? FROM people WHERE name = ?", "SELECT $1 + id FROM people WHERE name = $2"]
)
def test_parameters_do_not_change_names(bare: flight.FlightClient, sql: str) -> None:
    """What Prepare promised stays when values are bound, and when others are."""
    answer = prepare(bare, sql)
    command = prepared(answer.prepared_statement_handle)
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    asked = pa.ipc.read_schema(pa.py_buffer(answer.parameter_schema))
    assert asked.types == [pa.int64(), pa.string()]
    for number in (10, 20):
        put(bare, command, pa.table({"0": [number], "1": ["Ann"]}))
        info = bare.get_flight_info(command)
        read = fetch(bare, command)
        assert told == info.schema == read.schema
        assert read.column(0).to_pylist() == [number + 1]


def test_a_prepared_query_sees_a_new_table(bare: flight.FlightClient, database: Database) -> None:
    """Columns of a table that was replaced after preparing have the names they have now."""
    database.session().update("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    command = prepared(prepare(bare, "SELECT *, ? AS c, a + ? FROM t").prepared_statement_handle)
    database.session().update("CREATE OR REPLACE TABLE t AS SELECT 'y' AS b, 2 AS a")
    put(bare, command, pa.table({"0": [3], "1": [4]}))
    assert fetch(bare, command).to_pylist() == [{"b": "y", "a": 2, "c": 3, "t.a + $2": 6}]


def test_a_wrong_number_of_values(bare: flight.FlightClient) -> None:
    """Binding more or fewer values than there are parameters fails at once, with both numbers."""
    command = prepared(prepare(bare, "SELECT ? + 1, ?").prepared_statement_handle)
    with pytest.raises(pa.ArrowInvalid, match="takes 2 parameters, but 1 are bound"):
        put(bare, command, pa.table({"0": [1]}))
    with pytest.raises(pa.ArrowInvalid, match="takes 2 parameters, but 0 are bound"):
        bare.get_flight_info(command)


def test_a_value_of_a_wrong_type(bare: flight.FlightClient) -> None:
    """A value that cannot stand in its place is an error that names the types."""
    command = prepared(prepare(bare, "SELECT 1 + ?").prepared_statement_handle)
    put(bare, command, pa.table({"0": [{"a": 1}]}))
    with pytest.raises(pa.ArrowInvalid, match=r"Int64.*Struct"):
        bare.get_flight_info(command)


def test_prepared_statements_side_by_side(bare: flight.FlightClient) -> None:
    """One statement prepared twice has values of its own each time, also when both run at once."""
    handles = [prepare(bare, "SELECT ? AS v").prepared_statement_handle for _ in range(4)]
    found: dict[int, list[Any]] = {}

    def run(number: int) -> None:
        command = prepared(handles[number])
        put(bare, command, pa.table({"0": [number]}))
        found[number] = fetch(bare, command).column(0).to_pylist()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number] for number in range(4)}


ROW = pa.table({"a": [1]})


def _ingest(
    bare: flight.FlightClient, table: str, missing: int, existing: int, rows: pa.Table, **fields: object
) -> int:
    options = {"if_not_exist": missing, "if_exists": existing}
    command = descriptor("CommandStatementIngest", table=table, table_definition_options=options, **fields)
    return count(put(bare, command, rows))


def _rows(database: Database, table: str) -> int | None:
    names = [info.name for info in database.catalog.tables() if info.name.display == table]
    if not names:
        return None
    result = database.session().execute(f"SELECT count(*) FROM {table}")
    return int(next(result.batches).column(0)[0].as_py())


@pytest.mark.parametrize(
    ("missing", "existing", "into_none", "into_one"),
    [
        (1, 1, 1, "exists"),
        (1, 0, 1, "exists"),
        (1, 2, 1, 2),
        (1, 3, 1, 1),
        (2, 2, "no table", 2),
        (0, 2, "no table", 2),
        (2, 3, "no table", 1),
        (2, 1, "neither", "neither"),
        (0, 0, "neither", "neither"),
    ],
)
def test_ingest_options(
    bare: flight.FlightClient,
    database: Database,
    missing: int,
    existing: int,
    into_none: int | str,
    into_one: int | str,
) -> None:
    """What an upload does where its table is missing and where it exists, for every combination of its options."""
    for table, expected, left in (("none", into_none, None), ("one", into_one, 1)):
        if left:
            _ingest(bare, table, 1, 1, ROW)
        if isinstance(expected, int):
            assert _ingest(bare, table, missing, existing, ROW) == 1
            assert _rows(database, table) == expected
        else:
            with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError), match=expected):
                _ingest(bare, table, missing, existing, ROW)
            assert _rows(database, table) == left


def test_ingest_into_a_schema(bare: flight.FlightClient, database: Database) -> None:
    """Any schema that exists takes uploads; catalogs, schemas, tables and options that do not exist are named."""
    database.session().update("CREATE SCHEMA sales")
    assert _ingest(bare, "t", 1, 1, ROW, schema="sales", catalog="flightllm") == 1
    assert _rows(database, "sales.t") == 1
    with pytest.raises(pa.ArrowKeyError, match="no schema 'nope'"):
        _ingest(bare, "t", 1, 1, ROW, schema="nope")
    with pytest.raises(pa.ArrowKeyError, match="no catalog 'nope'"):
        _ingest(bare, "t", 1, 1, ROW, catalog="nope")
    with pytest.raises(pa.ArrowNotImplementedError, match="temporary"):
        _ingest(bare, "t", 1, 1, ROW, temporary=True)
    with pytest.raises(pa.ArrowNotImplementedError, match="'compression' is unknown"):
        _ingest(bare, "t", 1, 1, ROW, options={"compression": "zstd"})
    with pytest.raises(flight.FlightUnauthorizedError, match="system"):
        _ingest(bare, "queries", 1, 3, ROW, schema="system")
    with pytest.raises(pa.ArrowInvalid, match="names no table"):
        _ingest(bare, "", 1, 1, ROW)


def test_ingest_of_nothing(bare: flight.FlightClient, database: Database) -> None:
    """An upload without rows makes an empty table; one without columns is refused; a column too many is named."""
    assert _ingest(bare, "t", 1, 1, ROW.slice(0, 0)) == 0
    assert _rows(database, "t") == 0
    assert _ingest(bare, "t", 1, 2, ROW.slice(0, 0)) == 0
    with pytest.raises(pa.ArrowInvalid, match="no columns"):
        _ingest(bare, "u", 1, 1, pa.table({}))
    with pytest.raises(pa.ArrowInvalid, match="no column 'b'"):
        _ingest(bare, "t", 1, 2, pa.table({"a": [1], "b": [2]}))
    with pytest.raises(pa.ArrowInvalid, match="'a' of type string does not fit"):
        _ingest(bare, "t", 1, 2, pa.table({"a": ["x"]}))


class _Trailers(flight.ClientMiddlewareFactory):
    """Keeps the code that the last call ended with."""

    code: str | None = None

    def start_call(self, _info: Any) -> "_Trailer":
        return _Trailer(self)


class _Trailer(flight.ClientMiddleware):
    def __init__(self, factory: _Trailers) -> None:
        super().__init__()
        self._factory = factory

    def received_headers(self, headers: dict[str, list[str]]) -> None:
        for code in headers.get("x-flightllm-sqlstate", []):
            self._factory.code = code


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELEC 1", "42601"),
        ("SELECT 'a", "42601"),
        ("SELECT * FROM nope", "42P01"),
        ("SELECT nope FROM system.queries", "42703"),
        ("SELECT nope(1)", "42883"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT CAST('x' AS INT)", "22P02"),
        ("SELECT ai_gen()", "22023"),
        ("SELECT 1 + ?", "07001"),
        ("DROP TABLE nope", "42P01"),
        ("CREATE SCHEMA public", "42P07"),
        ("DELETE FROM system.queries", "42809"),
        ("COPY a TO 'b'", "0A000"),
        ("BEGIN", "0A000"),
        ("SET flightllm.nope = 1", "22023"),
        (f"SELECT {'+'.join(['1'] * 3_000)}", "54000"),
    ],
)
def test_sqlstates(server: FlightSqlServer, sql: str, code: str) -> None:
    """Each kind of error has its code, and no message has a traceback or a path of the server."""
    trailers = _Trailers()
    with flight.FlightClient(server.uri, middleware=[trailers]) as client, pytest.raises(pa.ArrowException) as caught:
        fetch(client, query(sql))
    assert trailers.code == code
    assert "Traceback" not in str(caught.value)
    assert ".py" not in str(caught.value)
    assert "/site-packages/" not in str(caught.value)


def _with_parts(bare: flight.FlightClient, parts: int) -> None:
    request = flight_message("SetSessionOptionsRequest")
    request.session_options["flightllm.endpoints"].int64_value = parts
    assert not act(bare, "SetSessionOptions", request, "SetSessionOptionsResult").errors


def test_parts_of_a_result(bare: flight.FlightClient, server: FlightSqlServer) -> None:
    """Several tickets for one result, fetched by connections of their own at once: every row comes once."""
    _with_parts(bare, 4)
    info = bare.get_flight_info(query("SELECT value FROM generate_series(1, 300000)"))
    assert (len(info.endpoints), info.ordered) == (4, False)
    read: list[pa.Table] = []

    def run(number: int) -> None:
        with flight.FlightClient(server.uri, generic_options=[("flightllm.part", number)]) as client:
            read.append(client.do_get(info.endpoints[number].ticket).read_all())

    threads = [threading.Thread(target=run, args=(number,)) for number in (2, 0, 3, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = sorted(value for table in read for value in table.column(0).to_pylist())
    assert values == list(range(1, 300_001))
    with pytest.raises(pa.ArrowKeyError, match="part 1 of the result is gone"):
        bare.do_get(info.endpoints[1].ticket).read_all()


@pytest.mark.parametrize("value", ["0", "65", "many", ""])
def test_a_wrong_number_of_parts(server: FlightSqlServer, value: str) -> None:
    """A header that is no number of parts is refused, with the range."""
    options = flight.FlightCallOptions(headers=[(b"x-flightllm-endpoints", value.encode())])
    with flight.connect(server.uri) as client, pytest.raises(pa.ArrowInvalid, match="whole number from 1 to 64"):
        client.get_flight_info(query("SELECT 1"), options)


def test_parts_ask_the_model_once(bare: flight.FlightClient, database: Database) -> None:
    """Read one after the other, parts are one run of the query."""
    database.session().update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 4)")
    _with_parts(bare, 3)
    rows = fetch(bare, query("SELECT n, ai_gen('Say {n}', n) AS said FROM t"))
    assert sorted(rows.column(0).to_pylist()) == [1, 2, 3, 4]
    assert [database.queries.get(info).progress()["calls_done"] for info in _ids(database)] == [4]


def _ids(database: Database) -> list[str]:
    result = database.session().execute("SELECT query_id FROM system.queries WHERE calls > 0")
    return [row for batch in result.batches for row in batch.column(0).to_pylist()]


def test_cancelling_one_part_cancels_all(bare: flight.FlightClient, database: Database) -> None:
    """A FlightInfo with one of the tickets is enough, and a part fetched afterwards says what happened."""
    database.session().update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 300)")
    _with_parts(bare, 2)
    info = bare.get_flight_info(query("SELECT ai_gen('Say {n}', n) FROM t"))
    reader = bare.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    one = flight.FlightInfo(info.schema, info.descriptor, info.endpoints[:1], -1, -1)
    assert _cancel(bare, one) == 2
    with pytest.raises(CANCELLED):
        reader.read_all()
    with pytest.raises(CANCELLED):
        bare.do_get(info.endpoints[1].ticket).read_all()
    assert _cancel(bare, info) == 1


def _cancel(bare: flight.FlightClient, info: flight.FlightInfo) -> int:
    request = flight_message("CancelFlightInfoRequest", info=info.serialize())
    return int(act(bare, "CancelFlightInfo", request, "CancelFlightInfoResult").status)


def test_what_cancelling_came_to(bare: flight.FlightClient) -> None:
    """A query not yet fetched is cancelled; one that has ended, an update and metadata cannot be."""
    waiting = bare.get_flight_info(query("SELECT 1"))
    assert [_cancel(bare, waiting), _cancel(bare, waiting)] == [1, 1]
    with pytest.raises(CANCELLED):
        bare.do_get(waiting.endpoints[0].ticket).read_all()
    ended = bare.get_flight_info(query("SELECT 1"))
    bare.do_get(ended.endpoints[0].ticket).read_all()
    update = bare.get_flight_info(query("CREATE TABLE t AS SELECT 1 AS a"))
    metadata = bare.get_flight_info(descriptor("CommandGetCatalogs"))
    assert [_cancel(bare, info) for info in (ended, update, metadata)] == [3, 3, 3]
    request = flight_message("CancelFlightInfoRequest", info=b"x")
    with pytest.raises(pa.ArrowInvalid, match="no FlightInfo"):
        act(bare, "CancelFlightInfo", request, "CancelFlightInfoResult")


def test_progress(bare: flight.FlightClient, database: Database) -> None:
    """Batches of a query that asks a model say how far it is; an action tells it of any query by its id."""
    database.session().update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 3)")
    info = bare.get_flight_info(query("SELECT ai_gen('Say {n}', n) FROM t"))
    told = [json.loads(chunk.app_metadata.to_pybytes()) for chunk in bare.do_get(info.endpoints[0].ticket)]
    assert {entry["query_id"] for entry in told} == {info.app_metadata.decode()}
    assert told[-1]["calls_done"] == told[-1]["calls_expected"] == 3
    (result,) = bare.do_action(flight.Action("GetQueryProgress", info.app_metadata))
    after = json.loads(result.body.to_pybytes())
    assert (after["status"], after["rows"], after["failed_rows"]) == ("done", 3, 0)
    plain = bare.get_flight_info(query("SELECT 1"))
    assert [chunk.app_metadata for chunk in bare.do_get(plain.endpoints[0].ticket)] == [None]
    with pytest.raises(pa.ArrowKeyError, match="no query 'nope'"):
        list(bare.do_action(flight.Action("GetQueryProgress", b"nope")))


def test_renewing(bare: flight.FlightClient) -> None:
    """An endpoint tells until when it may be fetched again, and renewing puts that off; one that is gone says so."""
    (endpoint,) = bare.get_flight_info(query("SELECT 1 AS a")).endpoints
    (later,) = _renew(bare, endpoint)
    assert later.expiration_time.value > endpoint.expiration_time.value
    assert bare.do_get(later.ticket).read_all() == bare.do_get(endpoint.ticket).read_all()
    body = pack(sql_message("TicketStatementQuery", statement_handle=b"nope"))
    with pytest.raises(pa.ArrowKeyError, match="no such query"):
        _renew(bare, flight.FlightEndpoint(body, [], later.expiration_time))
    assert [kept.expiration_time for kept in _renew(bare, flight.FlightEndpoint(body, []))] == [None]


def _renew(bare: flight.FlightClient, endpoint: flight.FlightEndpoint) -> list[flight.FlightEndpoint]:
    request = flight_message("RenewFlightEndpointRequest", endpoint=endpoint.serialize())
    results = bare.do_action(flight.Action("RenewFlightEndpoint", request.SerializeToString()))
    return [flight.FlightEndpoint.deserialize(result.body.to_pybytes()) for result in results]


def test_options_of_every_type(bare: flight.FlightClient) -> None:
    """Values come as text, truth, whole or decimal numbers and lists; no value puts an option back to its default."""
    request = flight_message("SetSessionOptionsRequest")
    options = request.session_options
    options["cache"].bool_value = False
    options["max_calls"].int64_value = 7
    options["max_cost"].double_value = 0.5
    options["ordering"].string_value = "fixed"
    options["layout"].string_list_value.values.extend(["fields"])
    assert not act(bare, "SetSessionOptions", request, "SetSessionOptionsResult").errors
    assert _options(bare) >= {("cache", "off"), ("max_calls", "7"), ("max_cost", "0.5"), ("layout", "fields")}
    reset = flight_message("SetSessionOptionsRequest")
    reset.session_options["max_calls"].SetInParent()
    reset.session_options["nothing"].SetInParent()
    errors = act(bare, "SetSessionOptions", reset, "SetSessionOptionsResult").errors
    assert {key: error.value for key, error in errors.items()} == {"nothing": 1}
    assert ("max_calls", "none") in _options(bare)


def _options(bare: flight.FlightClient) -> set[tuple[str, str]]:
    answer = act(bare, "GetSessionOptions", flight_message("GetSessionOptionsRequest"), "GetSessionOptionsResult")
    return {(key, value.string_value) for key, value in answer.session_options.items()}


def _client_plan(sql: str) -> bytes:
    """Plan a query over `people` in a client's own context."""
    context = SessionContext()
    context.sql("CREATE TABLE people (id BIGINT, name VARCHAR, day DATE, score DOUBLE)")
    function = udf(lambda prompt, _: prompt, [pa.string(), pa.string()], pa.string(), "volatile", "ai_gen")
    context.register_udf(function)
    return bytes(Producer.to_substrait_plan(context.sql(sql).logical_plan(), context).encode())


@pytest.mark.usefixtures("tables")
def test_substrait(bare: flight.FlightClient) -> None:
    """A plan is described, prepared and executed like SQL, and calls the model by the names of its functions."""
    plan = {"plan": _client_plan("SELECT id, ai_gen('Say {name}', name) AS said FROM people"), "version": "0.85.0"}
    command = descriptor("CommandStatementSubstraitPlan", plan=plan)
    body = pack(sql_message("ActionCreatePreparedSubstraitPlanRequest", plan=plan))
    (result,) = bare.do_action(flight.Action("CreatePreparedSubstraitPlan", body))
    answer = unpack(result.body.to_pybytes()).message
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    assert told.names == ["id", "said"]
    assert not answer.is_update
    for one in (command, prepared(answer.prepared_statement_handle)):
        rows = fetch(bare, one)
        assert rows.schema == told == bare.get_schema(one).schema
        assert [said is None for said in rows.column("said").to_pylist()] == [False, True]


@pytest.mark.usefixtures("tables")
def test_substrait_that_is_refused(bare: flight.FlightClient) -> None:
    """Bytes that are no plan, transactions and updates by plan have errors that say so."""
    with pytest.raises(pa.ArrowInvalid, match="no Substrait plan"):
        bare.get_flight_info(descriptor("CommandStatementSubstraitPlan", plan={"plan": b"\xff"}))
    plan = {"plan": _client_plan("SELECT id FROM people")}
    with pytest.raises(pa.ArrowNotImplementedError, match="transactions"):
        bare.get_flight_info(descriptor("CommandStatementSubstraitPlan", plan=plan, transaction_id=b"t"))
    with pytest.raises(pa.ArrowNotImplementedError, match="cannot change anything"):
        put(bare, descriptor("CommandStatementSubstraitPlan", plan=plan), pa.table({}))


@pytest.mark.usefixtures("tables")
def test_substrait_over_adbc(server: FlightSqlServer) -> None:
    """ADBC sends plans too, prepared or not."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        for prepare_first in (False, True):
            cursor.adbc_statement.set_substrait_plan(_client_plan("SELECT name FROM people ORDER BY id"))
            if prepare_first:
                cursor.adbc_statement.prepare()
            handle, _ = cursor.adbc_statement.execute_query()
            rows = pa.RecordBatchReader._import_from_c(handle.address).read_all()
            assert rows.column(0).to_pylist() == ["Ann", None]
