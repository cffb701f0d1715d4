"""Uploads with every combination of their options, in messages made by hand."""

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.session.database import Database
from tests.flight_messages import count, descriptor, put

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
    assert _ingest(bare, "t", 1, 1, ROW, temporary=True) == 1
    assert _rows(database, "sales.t") == 1
    with pytest.raises(pa.ArrowNotImplementedError, match="unknown ingest option 'compression'"):
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
