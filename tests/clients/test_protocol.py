"""The protocol over a real database, in messages made by hand: schemas, errors and options of every command."""

from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.flight.messages import flight_message
from flightllm.flight.server import FlightSqlServer
from tests.flight_messages import act, descriptor, fetch, prepare, prepared, query


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
def test_one_schema_everywhere(reading: flight.FlightClient, sql: str) -> None:
    """Prepare, GetSchema, GetFlightInfo and the stream agree in names, types, nullability and metadata."""
    answer = prepare(reading, sql)
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    for command in (query(sql), prepared(answer.prepared_statement_handle)):
        info = reading.get_flight_info(command)
        read = reading.do_get(info.endpoints[0].ticket).read_all()
        for schema in (reading.get_schema(command).schema, info.schema, read.schema):
            assert schema.equals(told, check_metadata=True)


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
def test_one_schema_of_metadata(reading: flight.FlightClient, name: str, fields: dict[str, object]) -> None:
    """Metadata commands too have one schema."""
    command = descriptor(name, **fields)
    info = reading.get_flight_info(command)
    read = reading.do_get(info.endpoints[0].ticket).read_all()
    assert info.schema.equals(reading.get_schema(command).schema, check_metadata=True)
    assert info.schema.equals(read.schema, check_metadata=True)


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
        ("CREATE SCHEMA public", "42P06"),
        ("DELETE FROM system.queries", "42809"),
        ("COPY a TO 'b'", "0A000"),
        ("PREPARE p AS SELECT 1", "0A000"),
        ("SET flightllm.nope = 1", "22023"),
        (f"SELECT {'+'.join(['1'] * 3_000)}", "54000"),
    ],
)
def test_sqlstates(unchanged: FlightSqlServer, sql: str, code: str) -> None:
    """Each kind of error has its code, and no message has a traceback or a path of the server."""
    trailers = _Trailers()
    with (
        flight.FlightClient(unchanged.uri, middleware=[trailers]) as client,
        pytest.raises(pa.ArrowException) as caught,
    ):
        fetch(client, query(sql))
    assert trailers.code == code
    assert "Traceback" not in str(caught.value)
    assert ".py" not in str(caught.value)
    assert "/site-packages/" not in str(caught.value)


def test_options_of_every_type(bare: flight.FlightClient) -> None:
    """Values come as text, truth, whole or decimal numbers and lists, read as such; no value puts one back."""
    request = flight_message("SetSessionOptionsRequest")
    options = request.session_options
    options["cache"].bool_value = False
    options["max_calls"].int64_value = 7
    options["max_cost"].double_value = 0.5
    options["ordering"].string_value = "fixed"
    options["layout"].string_list_value.values.extend(["fields"])
    assert not act(bare, "SetSessionOptions", request, "SetSessionOptionsResult").errors
    assert _options(bare) >= {("cache", False), ("max_calls", 7), ("max_cost", 0.5), ("layout", "fields")}
    reset = flight_message("SetSessionOptionsRequest")
    reset.session_options["max_calls"].SetInParent()
    reset.session_options["nothing"].SetInParent()
    errors = act(bare, "SetSessionOptions", reset, "SetSessionOptionsResult").errors
    assert {key: error.value for key, error in errors.items()} == {"nothing": 1}
    assert ("max_calls", "none") in _options(bare)


def _options(bare: flight.FlightClient) -> set[tuple[str, object]]:
    answer = act(bare, "GetSessionOptions", flight_message("GetSessionOptionsRequest"), "GetSessionOptionsResult")
    return {(key, getattr(value, value.WhichOneof("option_value"))) for key, value in answer.session_options.items()}


def test_rows_without_columns(reading: flight.FlightClient) -> None:
    """A result of no column has its number of rows."""
    info = reading.get_flight_info(query("SELECT FROM people"))
    found = reading.do_get(info.endpoints[0].ticket).read_all()
    assert (found.num_columns, found.num_rows) == (0, 2)


def test_no_health_service(unchanged: FlightSqlServer) -> None:
    """Arrow's server takes no other service on its port, and says so to gRPC's health check; HTTP has `/readyz`."""
    with grpc.insecure_channel(unchanged.uri.removeprefix("grpc://")) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as raised:
            check(b"")
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
