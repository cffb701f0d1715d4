"""Values of every Arrow type through ADBC: uploaded and read, bound into an INSERT, bound into a query."""

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest

from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer
from tests.databases import open_database

UNITS = ("s", "ms", "us", "ns")
WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
VALUES: list[pa.Array] = [
    *[pa.array([0, 127, None], kind) for kind in WHOLE],
    pa.array([-(2**63), 2**63 - 1, None]),
    pa.array([2**64 - 1, None], pa.uint64()),
    pa.array([1.5, -65504.0, None], pa.float16()),
    pa.array([3.14, -1e30, None], pa.float32()),
    pa.array([3.14, 1e300, float("inf"), None]),
    pa.array([Decimal("1.23"), None], pa.decimal32(5, 2)),
    pa.array([Decimal("1.234"), None], pa.decimal64(12, 3)),
    pa.array([Decimal("123.45"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
    pa.array([Decimal(12300), None], pa.decimal128(10, -2)),
    pa.array([Decimal("0.123"), None], pa.decimal128(3, 3)),
    pa.array([Decimal("9" * 40 + ".5"), None], pa.decimal256(50, 1)),
    pa.array([True, False, None]),
    pa.array(["hé", "", "it's", None]),
    pa.array([b"\x00\xff", b"", None]),
    pa.array([b"abc", None], pa.binary(3)),
    pa.array([date(2020, 1, 2), date(1, 1, 1), None]),
    pa.array([date(2020, 1, 2), None], pa.date64()),
    pa.array([86_399_999_999_999, None], pa.time64("ns")),
    *[pa.array([0, -1, 1_234_567_890, None], pa.timestamp(unit)) for unit in UNITS],
    *[pa.array([0, -1, 1_234_567_890, None], pa.timestamp(unit, "UTC")) for unit in UNITS],
    pa.array([-62_135_596_800, 253_402_300_799], pa.timestamp("s")),
    pa.array([0, None], pa.timestamp("us", "Asia/Tokyo")),
    pa.array([0, None], pa.timestamp("us", "+05:30")),
    *[pa.array([0, -1, None], pa.duration(unit)) for unit in UNITS],
    pa.array([(1, 2, 3), (-1, 0, 5), None], pa.month_day_nano_interval()),
    pa.array([[1, None], [], None], pa.list_(pa.int32())),
    pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    pa.array([[{"a": 1}], None], pa.list_(pa.struct([("a", pa.int32())]))),
    pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
    pa.nulls(2),
]
TEXTS, BYTES = ["a", "longer than twelve bytes", None], [b"a", b"longer than twelve bytes", None]
ENCODED: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array(TEXTS, pa.large_string()), pa.string()),
    (pa.array(TEXTS, pa.string_view()), pa.string()),
    (pa.array(TEXTS).dictionary_encode(), pa.string()),
    (pa.array(TEXTS, pa.large_string()).dictionary_encode(), pa.string()),
    (pa.array(BYTES, pa.large_binary()), pa.binary()),
    (pa.array(BYTES, pa.binary_view()), pa.binary()),
    (pa.array([[1], None], pa.large_list(pa.int8())), pa.list_(pa.int8())),
    (pa.array([time(1, 2, 3), None], pa.time32("s")), pa.time64("ns")),
    (pa.array([time(1, 2, 3, 4_000), None], pa.time32("ms")), pa.time64("ns")),
    (pa.array([time(1, 2, 3, 4), None], pa.time64("us")), pa.time64("ns")),
]
"""Other layouts of the same values, and the plain type that they are kept as: clients read that everywhere."""
CASES = [*((values, values.type) for values in VALUES), *ENCODED]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for all types."""
    database = open_database(tmp_path_factory.mktemp("types"))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    yield server.uri
    server.drain(0)
    database.close()


@pytest.mark.parametrize(
    ("values", "kept"), CASES, ids=[f"{number}-{values.type}" for number, (values, _) in enumerate(CASES)]
)
def test_values(uri: str, values: pa.Array, kept: pa.DataType) -> None:
    """Uploaded, inserted and selected values come back as they were, in the plain type of their kind."""
    table = pa.table({"idx": pa.array(range(len(values)), pa.int64()), "value": values})
    plain = values if values.type == kept else pa.array(values.to_pylist(), kept)
    with adbc.connect(uri, autocommit=True) as connection:
        with connection.cursor() as cursor:
            assert cursor.adbc_ingest("uploaded", table, mode="replace") == len(values)
        with connection.cursor() as cursor:
            assert _read(cursor, "SELECT value FROM uploaded ORDER BY idx") == plain
            cursor.execute("CREATE OR REPLACE TABLE inserted AS SELECT * FROM uploaded WHERE idx < 0")
            cursor.adbc_statement.set_sql_query("INSERT INTO inserted (idx,value) VALUES ($1,$2)")
            cursor.adbc_statement.prepare()
            cursor.adbc_statement.bind(table.to_batches()[0])
            assert cursor.adbc_statement.execute_update() == len(values)
            assert _read(cursor, "SELECT value FROM inserted ORDER BY idx") == plain
            cursor.adbc_statement.set_sql_query("SELECT ?")
            cursor.adbc_statement.prepare()
            cursor.adbc_statement.bind(pa.record_batch({"0": values}))
            handle, _ = cursor.adbc_statement.execute_query()
            reader = pa.RecordBatchReader._import_from_c(handle.address)
            assert reader.read_all().column(0).combine_chunks() == plain


def _read(cursor: Any, sql: str) -> pa.Array:
    cursor.execute(sql)
    return cursor.fetch_arrow_table().column(0).combine_chunks()


@pytest.mark.parametrize(
    ("declared", "kept", "literal", "value"),
    [
        ("SMALLINT", pa.int16(), "-32768", -32_768),
        ("INT", pa.int32(), "1", 1),
        ("BIGINT", pa.int64(), "-9223372036854775808", -(2**63)),
        ("REAL", pa.float32(), "1.5", 1.5),
        ("DOUBLE PRECISION", pa.float64(), "3.14", 3.14),
        ("NUMERIC(10, 2)", pa.decimal128(10, 2), "123.45", Decimal("123.45")),
        ("BOOLEAN", pa.bool_(), "TRUE", True),
        ("VARCHAR(1000)", pa.string(), "'x'", "x"),
        ("BYTEA", pa.binary(), "X'00ff'", b"\x00\xff"),
        ("DATE", pa.date32(), "DATE '2020-01-02'", date(2020, 1, 2)),
        ("TIME", pa.time64("ns"), "TIME '13:45:31.123456'", time(13, 45, 31, 123_456)),
        ("TIMESTAMP(0)", pa.timestamp("s"), "TIMESTAMP '2023-05-15 13:45:30'", "2023-05-15 13:45:30"),
        ("TIMESTAMP(6)", pa.timestamp("us"), "TIMESTAMP '2023-05-15 13:45:30.5'", "2023-05-15 13:45:30.500000"),
        (
            "TIMESTAMP(3) WITH TIME ZONE",
            pa.timestamp("ms", "UTC"),
            "TIMESTAMP WITH TIME ZONE '2023-05-15 15:45:30+02'",
            "2023-05-15 13:45:30.000Z",
        ),
    ],
)
def test_declared_types(uri: str, declared: str, kept: pa.DataType, literal: str, value: object) -> None:
    """Columns declared in SQL have their type in the table's schema, in a query's, and in what it returns."""
    with adbc.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE TABLE declared (idx INT, res {declared})")
        cursor.execute(f"INSERT INTO declared (idx, res) VALUES (1, {literal})")
        cursor.execute("INSERT INTO declared (idx, res) VALUES (2, NULL)")
        assert connection.adbc_get_table_schema("declared").field("res").type == kept
        assert cursor.adbc_execute_schema("SELECT res FROM declared").types == [kept]
        found = _read(cursor, "SELECT res FROM declared ORDER BY idx")
    assert found.type == kept
    shown = found.cast(pa.string()) if isinstance(value, str) and kept != pa.string() else found
    assert shown.to_pylist() == [value, None]


def test_labels_as_a_parameter(server: FlightSqlServer) -> None:
    """A bound list serves as the labels of a call."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ai_classify('sunny', ?) AS label", parameters=[["rain", "sun"]])
        assert cursor.fetchall() in ([("rain",)], [("sun",)])


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("md5('a')", pa.string(), "0cc175b9c0f1b6a831c399e269772661"),
        ("upper(NULL)", pa.string(), None),
        ("string_agg('a', ',')", pa.string(), "a"),
        ("arrow_cast('a', 'Dictionary(Int32, Utf8)')", pa.string(), "a"),
        ("arrow_cast('a', 'BinaryView')", pa.binary(), b"a"),
        ("arrow_cast([1], 'LargeList(Int64)')", pa.list_(pa.int64()), [1]),
        ("named_struct('x', [md5('a')])['x'][1]", pa.string(), "0cc175b9c0f1b6a831c399e269772661"),
        ("array_agg(arrow_cast('a', 'Dictionary(Int8, Utf8)'))", pa.list_(pa.string()), ["a"]),
        ("named_struct('x', md5('a'))", pa.struct({"x": pa.string()}), {"x": "0cc175b9c0f1b6a831c399e269772661"}),
    ],
)
def test_computed_types(uri: str, expression: str, kind: pa.DataType, value: object) -> None:
    """What functions return comes in the plain type of its kind: told of a query, a view, and in what both return."""
    with adbc.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE VIEW computed AS SELECT {expression} AS res")
        assert connection.adbc_get_table_schema("computed").field("res").type == kind
        for sql in (f"SELECT {expression} AS res", "SELECT res FROM computed"):
            assert cursor.adbc_execute_schema(sql).types == [kind]
            found = _read(cursor, sql)
            assert (found.type, found.to_pylist()) == (kind, [value])
