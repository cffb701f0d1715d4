"""Extension types and metadata of fields come back as they were sent, and DataFusion computes with their storage."""

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest

from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.storage.backup import back_up
from tests.databases import open_database

_STORAGE = {
    "u": (pa.uuid(), pa.array([b"x" * 16, b"y" * 16, None], pa.binary(16))),
    "j": (pa.json_(), pa.array(['{"a": 1}', None, "[]"])),
    "l": (pa.json_(pa.large_string()), pa.array(["1", "2", "3"], pa.large_string())),
    "b": (pa.bool8(), pa.array([1, 0, None], pa.int8())),
    "o": (pa.opaque(pa.string(), "geometry", "postgis"), pa.array(["p", "q", "r"])),
    "f": (
        pa.fixed_shape_tensor(pa.int32(), [2, 2]),
        pa.array([[1, 2, 3, 4], None, [5, 6, 7, 8]], pa.list_(pa.int32(), 4)),
    ),
}
SENT = pa.table(
    [*(pa.ExtensionArray.from_storage(kind, column) for kind, column in _STORAGE.values()), pa.array([1, 2, 3])],
    schema=pa.schema(
        [
            *(pa.field(name, kind) for name, (kind, _) in _STORAGE.items()),
            pa.field("m", pa.int64(), metadata={"unit": "kg", "ARROW:extension:name": "nobody.knows"}),
        ]
    ),
)
TYPES = [pa.json_(pa.string()) if name == "l" else SENT.schema.field(name).type for name in SENT.schema.names]


@pytest.fixture
def cursor(server: FlightSqlServer) -> Iterator[flight_sql.Cursor]:
    """Connect ADBC, and upload the table."""
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("sent", SENT, mode="create")
        yield cursor


def asked(cursor: flight_sql.Cursor, sql: str) -> pa.Table:
    """Return the result of a query."""
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


def test_a_round_trip(cursor: flight_sql.Cursor) -> None:
    """Values, types and metadata come back; large layouts as plain ones. The same once more rows were appended."""
    for times in (1, 2):
        found = asked(cursor, "SELECT * FROM sent")
        assert found.schema.types == TYPES
        assert found.schema.field("m").metadata == SENT.schema.field("m").metadata
        assert found.slice(0, 3).to_pylist() == SENT.to_pylist()
        assert found.num_rows == 3 * times
        cursor.adbc_ingest("sent", SENT, mode="append")


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT u AS other FROM sent", pa.uuid()),
        ("SELECT u FROM (SELECT * FROM sent ORDER BY m LIMIT 2) AS x", pa.uuid()),
        ("SELECT a.u FROM sent a JOIN sent b ON a.u = b.u", pa.uuid()),
        ("SELECT u FROM sent UNION ALL SELECT u FROM sent", pa.uuid()),
        ("SELECT u, count(*) FROM sent GROUP BY u", pa.uuid()),
        ("SELECT j, ai_gen('Say {j}', j) FROM sent", pa.json_()),
        ("SELECT upper(j) FROM sent", pa.string()),
        ("SELECT j || 'x' FROM sent", pa.string()),
        ("SELECT CAST(j AS VARCHAR) FROM sent", pa.string()),
        ("SELECT -b FROM sent", pa.int8()),
        ("SELECT b + 1 FROM sent", pa.int64()),
        ("SELECT max(j) FROM sent", pa.string()),
        ("SELECT encode(u, 'hex') FROM sent", pa.string()),
        ("SELECT f[1] FROM sent", pa.int32()),
    ],
)
def test_columns_of_queries(cursor: flight_sql.Cursor, sql: str, kind: pa.DataType) -> None:
    """A plain column is of its type however it is fetched; what is computed has the type that it is computed in."""
    assert asked(cursor, sql).schema.types[0] == kind


def test_what_is_made_of_it(cursor: flight_sql.Cursor) -> None:
    """Tables made of a query, views, and rows that are inserted, changed and deleted keep the types."""
    cursor.execute("CREATE TABLE copied AS SELECT u, j, m FROM sent")
    cursor.execute("CREATE VIEW seen AS SELECT u FROM copied")
    cursor.execute("INSERT INTO copied SELECT u, j, m + 10 FROM sent")
    cursor.execute("UPDATE copied SET m = 0 WHERE m = 1")
    cursor.execute("DELETE FROM copied WHERE m = 2")
    assert asked(cursor, "SELECT * FROM copied").schema.types == [pa.uuid(), pa.json_(), pa.int64()]
    assert asked(cursor, "SELECT * FROM seen").schema.types == [pa.uuid()]


def test_in_metadata(server: FlightSqlServer, cursor: flight_sql.Cursor) -> None:
    """GetTables tells the types, the metadata, and what Flight SQL says of each column."""
    del cursor
    with flight_sql.connect(server.uri, autocommit=True) as connection:
        told = connection.adbc_get_table_schema("sent")
    assert told.types == TYPES
    assert told.field("m").metadata[b"unit"] == b"kg"
    assert told.field("u").metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"BYTEA"


def test_after_a_restart_and_from_a_backup(tmp_path: Path) -> None:
    """The types are kept on disk."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    database = open_database(folder)
    database.session().ingest("sent", SENT.to_batches(), SENT.schema, "create")
    database.close()
    back_up(folder, copy)
    for opened in (folder, copy):
        database = open_database(opened)
        assert _types(database) == TYPES
        database.close()


def _types(database: Database) -> list[pa.DataType]:
    result = database.session().execute("SELECT * FROM sent")
    rows = pa.Table.from_batches(list(result.batches), result.schema)
    assert rows.to_pylist() == SENT.to_pylist()
    return list(rows.schema.types)
