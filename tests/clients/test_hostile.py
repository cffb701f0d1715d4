"""What a run of malformed input once found: each is told as the client's fault, and costs the server nothing."""

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.client import Client
from flightllm.errors import FlightLLMError, InvalidInputError, UnsupportedError
from flightllm.flight.messages import pack, sql_message
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import SMALL
from tests.flight_messages import prepare
from tests.fuzz.wire import Sent, Wire, flight_data, ipc_messages


@pytest.fixture(autouse=True)
def tables(database: Database) -> None:
    """Make the small tables."""
    session = database.session()
    for statement in SMALL:
        session.update(statement)
    session.close()


def test_a_wrong_setting_takes_no_place(server: FlightSqlServer) -> None:
    """A refused header leaves no place taken: else a few of them would end all service."""
    with Client(server.uri, {"x-flightllm-timeout": "nan"}) as client:
        for _ in range(3):
            with pytest.raises(InvalidInputError, match="timeout"):
                client.query("SELECT 1")
    assert server.load().running == 0


@pytest.mark.parametrize("number", ["65536", "99999999999", "9" * 5_000])
def test_a_parameter_of_any_number(server: FlightSqlServer, number: str) -> None:
    """A few characters do not make the server describe billions of parameters."""
    with flight.connect(server.uri) as bare, pytest.raises(pa.ArrowInvalid, match="up to 65,535 parameters"):
        prepare(bare, f"SELECT ${number}")


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 50_000, "\U0001f642" * 20_000])
def test_a_long_message_arrives(server: FlightSqlServer, text: str) -> None:
    """An error that quotes a long name fits into the trailers: its beginning and its end are told."""
    with Client(server.uri) as client, pytest.raises(InvalidInputError, match="…"):
        client.query(f'SELECT "{text}" FROM people')


@pytest.mark.parametrize("damage", ["missing dictionary", "swapped messages", "flipped header", "name", "length"])
def test_a_malformed_upload(server: FlightSqlServer, damage: str) -> None:
    """IPC messages that cannot be read are refused as such."""
    table = pa.table({"name": pa.array(["x", "y"]).dictionary_encode(), "list": [[1, 2, 3], [4, 5, 6, 7]]})
    messages = list(ipc_messages(table))
    if damage == "missing dictionary":
        del messages[1]
    elif damage == "swapped messages":
        messages[1:] = [messages[2], messages[0]]
    elif damage == "flipped header":
        messages[1] = (b"\xff" * len(messages[1][0]), messages[1][1])
    elif damage == "name":
        messages[0] = (messages[0][0].replace(b"name", b"na\xf4\xff"), messages[0][1])
    else:
        seven, less = ((number).to_bytes(8, "little", signed=True) for number in (7, -7))
        assert seven in messages[2][0]
        messages[2] = (messages[2][0].replace(seven, less), messages[2][1])
    options = {"if_not_exist": 1, "if_exists": 3}
    command = pack(sql_message("CommandStatementIngest", table="u", table_definition_options=options))
    first, *rest = messages
    wire = Wire(server.uri.removeprefix("grpc://"))
    said = wire.send(Sent("DoPut", [flight_data(command, *first), *(flight_data(None, *one) for one in rest)]))
    wire.close()
    assert said.code == "INVALID_ARGUMENT"
    assert "not valid Arrow" in said.text


def test_datafusion_panics(server: FlightSqlServer) -> None:
    """A statement that makes DataFusion panic is refused like one that it does not support."""
    with Client(server.uri) as client, pytest.raises(UnsupportedError, match="another way"):
        client.query("SELECT id FROM people ORDER BY (SELECT FROM likes), id")


def test_branches_of_several_types(server: FlightSqlServer) -> None:
    """They come as the one type that fits them all, which is promised too."""
    with Client(server.uri) as client:
        schema, batches = client.query("SELECT CASE WHEN id > 1 THEN 1 ELSE 'x' END AS c FROM people ORDER BY id")
        assert schema.types == [pa.string()]
        assert [value for batch in batches for value in batch["c"].to_pylist()] == ["x", *["1"] * 8]


@pytest.mark.parametrize("sql", ["SELECT FROM people", "SELECT FROM people WHERE ai_filter('x', note)"])
def test_rows_without_columns(server: FlightSqlServer, sql: str) -> None:
    """A query without columns runs, or is refused; it is no defect."""
    with Client(server.uri) as client:
        try:
            assert sum(batch.num_columns for batch in client.query(sql)[1]) == 0
        except FlightLLMError as error:
            assert "internal error" not in str(error)  # noqa: PT017 -- both outcomes are right
