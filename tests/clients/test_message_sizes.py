"""Every message fits into the 4 MiB that gRPC clients take by default: grpcio here, which is as strict as they are."""

from contextlib import ExitStack, closing
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import flight

from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.flight_messages import descriptor, fetch

_MOST, _MOST_OF_ADBC = 4 << 20, 16 << 20


def sizes(server: FlightSqlServer, client: flight.FlightClient, command: flight.FlightDescriptor) -> list[int]:
    """Return the size of every message that answers a command; raises where gRPC's default is too small."""
    (endpoint,) = client.get_flight_info(command).endpoints
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as channel:
        do_get = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        ticket: bytes = endpoint.ticket.serialize()
        return [len(message) for message in do_get(ticket)]


def wide(columns: int) -> pa.Schema:
    """Return a schema of so many columns."""
    return pa.schema([(f"a_column_of_some_length_{number}", pa.int64()) for number in range(columns)])


@pytest.mark.parametrize(
    ("tables", "columns"), [(8, 1_000), (1, 8_000), pytest.param(1, 18_000, marks=pytest.mark.slow)]
)
def test_schemas_of_tables(
    server: FlightSqlServer, bare: flight.FlightClient, database: Database, tables: int, columns: int
) -> None:
    """Many wide tables come in several messages; a very wide one says less of its columns, but has them all."""
    for number in range(tables):
        database.session().ingest(f"wide{number}", [], wide(columns), "create")
    command = descriptor("CommandGetTables", include_schema=True, db_schema_filter_pattern="public")
    found = sizes(server, bare, command)
    assert max(found) < _MOST
    for row in fetch(bare, command).to_pylist():
        assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names == wide(columns).names


@pytest.mark.slow
def test_many_tables(server: FlightSqlServer, bare: flight.FlightClient, database: Database) -> None:
    """No table is lost or told twice between two messages."""
    names = [f"t{number:02d}" for number in range(8)]
    for name in names:
        database.session().ingest(name, [], wide(1_000), "create")
    command = descriptor("CommandGetTables", include_schema=True, db_schema_filter_pattern="public")
    assert len(sizes(server, bare, command)) > 2
    assert fetch(bare, command)["table_name"].to_pylist() == names


@pytest.mark.slow
def test_adbc(tmp_path: Path) -> None:
    """All of over a hundred wide tables come through ADBC's 16 MiB a message, which is less than they take together."""
    names, schema = [f"t{number:03d}" for number in range(150)], wide(400)
    pq.write_table(schema.empty_table(), tmp_path / "wide.parquet")
    tables = dict.fromkeys(names, tmp_path / "wide.parquet")
    config = Config(engine=EngineConfig(kind="fake"), tables=tables, data_folder=tmp_path / "data")
    with ExitStack() as opened:
        database = opened.enter_context(closing(Database.open(config)))
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        opened.callback(server.drain, 0)
        command = descriptor("CommandGetTables", include_schema=True, db_schema_filter_pattern="public")
        found = sizes(server, opened.enter_context(flight.connect(server.uri)), command)
        assert max(found) < _MOST < _MOST_OF_ADBC < sum(found)
        connection = opened.enter_context(flight_sql.connect(server.uri, autocommit=True))
        (catalog,) = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
        (public,) = catalog["catalog_db_schemas"]
        told = {t["table_name"]: [c["column_name"] for c in t["table_columns"]] for t in public["db_schema_tables"]}
        assert told == dict.fromkeys(names, schema.names)
        assert connection.adbc_get_table_schema(names[-1], db_schema_filter="public").names == schema.names


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "name",
    [
        "CommandGetSqlInfo",
        "CommandGetCatalogs",
        "CommandGetDbSchemas",
        "CommandGetTableTypes",
        "CommandGetXdbcTypeInfo",
        "CommandGetPrimaryKeys",
        "CommandGetExportedKeys",
        "CommandGetImportedKeys",
        "CommandGetCrossReference",
    ],
)
def test_other_metadata(server: FlightSqlServer, bare: flight.FlightClient, name: str) -> None:
    """Every other answer about the catalog comes through too."""
    assert max(sizes(server, bare, descriptor(name))) < _MOST
