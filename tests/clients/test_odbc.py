"""What Arrow's ODBC driver sends, call by call, and what its code needs in the answers.

The driver reads columns by their place and casts them to fixed Arrow types without a check. So another type in an
answer crashes the application that uses the driver.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.flight_messages import descriptor, fetch, prepare, prepared, query

_TYPES = "ARROW:FLIGHT:SQL:TYPE_NAME"
_READ_AS = {
    "bool": (*range(3, 6), 9, 10, *range(500, 503), 506, 515, 516, *range(518, 522), 523, 524, 527, 532, 536, 537, 539),
    "int64": (503, 505, 507, *range(541, 556), *range(557, 563)),
    "int32": (522, 525, 526, 528, 533, 534, 535, 538, 540, 564, 567, 568, 569, 570, 571),
    "string": (0, 1, 2, 504, 513, 514, 529, 530, 531),
    "list<item: string>": (508, 509, 510, 511, 512),
    "map<int32, list<item: int32>>": (517,),
}
"""The Arrow type that the driver's code casts the value of each id to."""


@pytest.fixture(scope="module")
def info(unchanged: FlightSqlServer) -> pa.Table:
    """Return the answer to GetSqlInfo without ids, which the driver sends once a connection."""
    with flight.connect(unchanged.uri) as client:
        return fetch(client, descriptor("CommandGetSqlInfo"))


@pytest.mark.parametrize("kind", _READ_AS)
def test_types_of_information(info: pa.Table, kind: str) -> None:
    """Each value has the type that the driver, and the one for JDBC, casts it to."""
    values = info.column("value").combine_chunks()
    found = {name.as_py(): value.value.type for name, value in zip(info.column("info_name"), values, strict=True)}
    assert {number: str(found[number]) for number in _READ_AS[kind]} == dict.fromkeys(_READ_AS[kind], kind)


def _tables(reading: flight.FlightClient, **asked: Any) -> list[tuple[str, str]]:
    rows = fetch(reading, descriptor("CommandGetTables", **asked)).to_pylist()
    assert {row["catalog_name"] for row in rows} <= {"flightllm"}
    return [(row["table_name"], row["table_type"]) for row in rows if row["db_schema_name"] == "public"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"catalog": "%", "db_schema_filter_pattern": "%", "table_name_filter_pattern": "%"},
        {"catalog": "flightllm", "db_schema_filter_pattern": "public", "table_types": ["TABLE", "VIEW"]},
    ],
)
def test_tables(reading: flight.FlightClient, asked: dict[str, Any]) -> None:
    """`SQLTables` sends NULL for what is not asked, or a pattern, also for the catalog."""
    assert _tables(reading, **asked) == [("fans", "VIEW"), ("likes", "TABLE"), ("people", "TABLE")]


@pytest.mark.parametrize(
    ("command", "asked", "column"),
    [
        ("CommandGetCatalogs", {}, "catalog_name"),
        ("CommandGetDbSchemas", {"db_schema_filter_pattern": "%"}, "db_schema_name"),
        ("CommandGetTableTypes", {}, "table_type"),
    ],
)
def test_lists(reading: flight.FlightClient, command: str, asked: dict[str, str], column: str) -> None:
    """`SQLTables` with `%` in one place lists catalogs, schemas or types; the driver renames the column by its name."""
    answer = reading.get_flight_info(descriptor(command, **asked))
    assert answer.schema.field(column).type == pa.string()
    assert fetch(reading, descriptor(command, **asked)).num_rows > 0


def test_columns(reading: flight.FlightClient) -> None:
    """`SQLColumns` reads the schemas of the tables; each field needs metadata, else the driver crashes."""
    found = fetch(reading, descriptor("CommandGetTables", include_schema=True))
    assert found.schema.types == [*[pa.string()] * 4, pa.binary()]
    fields = [
        field
        for row in found.to_pylist()
        for field in pa.ipc.read_schema(pa.py_buffer(row["table_schema"]))
        if row["table_name"] == "people"
    ]
    assert [field.metadata[_TYPES.encode()].decode() for field in fields] == ["BIGINT", "VARCHAR", "DATE", "DOUBLE"]
    assert all(field.metadata for field in fields)


def test_kinds_of_values(reading: flight.FlightClient) -> None:
    """`SQLGetTypeInfo` reads each column by its place, with a fixed type."""
    text, number, flag = pa.string(), pa.int32(), pa.bool_()
    types = fetch(reading, descriptor("CommandGetXdbcTypeInfo")).schema.types
    assert [*types[:5], *types[6:]] == [
        *(text, number, number, text, text, number, flag, number, flag),
        *(flag, flag, text, number, number, number, number, number, number),
    ]
    assert types[5].value_type == text


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("sql", ["INSERT INTO likes VALUES (2, 'rain')", "CREATE TABLE made (a INT)"])
def test_updates(bare: flight.FlightClient, sql: str) -> None:
    """`SQLExecDirect` runs each text as a query, and opens all its endpoints; an update runs once, without columns."""
    found = fetch(bare, query(sql))
    assert found.schema == bare.get_schema(query("SET flightllm.cache = on")).schema == pa.schema([])
    likes = fetch(bare, query("SELECT thing FROM likes")).column("thing").to_pylist()
    assert likes.count("rain") == sql.startswith("INSERT")


@pytest.mark.usefixtures("tables")
def test_prepared(bare: flight.FlightClient) -> None:
    """`SQLPrepare` reads a schema, of an update too; `SQLExecute` runs the statement as a query, each time."""
    answers = [prepare(bare, sql) for sql in ("SELECT id FROM people", "INSERT INTO likes VALUES (2, 'rain')")]
    columns = [pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema)).names for answer in answers]
    assert columns == [["id"], []]
    for _ in range(2):
        assert [fetch(bare, prepared(one.prepared_statement_handle)).num_rows for one in answers] == [2, 0]
    assert fetch(bare, query("SELECT thing FROM likes WHERE thing = 'rain'")).num_rows == 2


def test_types_of_rows(reading: flight.FlightClient) -> None:
    """The driver reads texts, bytes and decimals only in Arrow's plain types."""
    found = fetch(reading, query("SELECT name, upper(name), x'ff', 1.5::DECIMAL(9,2), day, now() FROM people"))
    assert found.schema.types[:4] == [pa.string(), pa.string(), pa.binary(), pa.decimal128(9, 2)]
    assert [pa.types.is_date32(found.schema.types[4]), pa.types.is_timestamp(found.schema.types[5])] == [True, True]


@pytest.fixture
def guarded(database: Database, tmp_path: Path) -> Iterator[FlightSqlServer]:
    """Run a server that asks for a token."""
    file = tmp_path / "secret"
    file.write_text("the-secret")
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0", token=f"file:{file}"))
    yield server
    server.drain(0)


class _EmptyHandshake(flight.ClientAuthHandler):
    """What the driver sends with the property `token`: a handshake whose headers have it, and an empty message."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:  # noqa: ARG002 - the driver reads no answer
        """Send an empty message."""
        outgoing.write(b"")

    def get_token(self) -> bytes:
        """Return an empty token, which each call then has beside the header."""
        return b""


def test_token(guarded: FlightSqlServer) -> None:
    """A token opens, though each call has an empty token of the handshake too; further properties are headers."""
    further = [(b"chunkbuffercapacity", b"5"), (b"x-flightllm-dialect", b"snowflake")]
    options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer the-secret"), *further])
    with flight.connect(guarded.uri) as client:
        client.authenticate(_EmptyHandshake(), options)
        answer = client.get_flight_info(query("SELECT IFF(TRUE, 1, 2) AS a"), options)
        assert client.do_get(answer.endpoints[0].ticket, options).read_all().to_pydict() == {"a": [1]}


def test_password(guarded: FlightSqlServer) -> None:
    """User and password give a token for all calls."""
    with flight.connect(guarded.uri) as client:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("anybody", "the-secret")])
        assert client.get_flight_info(query("SELECT 1 AS a"), options).endpoints
