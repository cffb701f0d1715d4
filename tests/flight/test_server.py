"""The protocol, as a bare Flight client sees it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.client import Client
from flightllm.common.limits import TimeLimit
from flightllm.config import LimitsConfig, ServerConfig
from flightllm.errors import CancelledError, EngineUnavailableError
from flightllm.flight.core import PART
from flightllm.flight.limits import FlightLimits
from flightllm.flight.messages import flight_message, message_class, pack, sql_message, unpack_as
from flightllm.flight.server import FlightSqlServer
from tests.flight_messages import act, descriptor, prepare, prepared, put
from tests.servers import await_true


@pytest.fixture
def bare(server: FlightSqlServer) -> Iterator[flight.FlightClient]:
    """Connect a bare Flight client."""
    with flight.connect(server.uri) as client:
        yield client


def test_the_schema_is_the_same_everywhere(bare: flight.FlightClient) -> None:
    """Prepare, GetSchema, GetFlightInfo and the stream agree."""
    sql = "SELECT 1 AS a, 'x' AS b, CAST(NULL AS DOUBLE) AS c"
    prepared = prepare(bare, sql)
    told = pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema))
    command = descriptor("CommandPreparedStatementQuery", prepared_statement_handle=prepared.prepared_statement_handle)
    info = bare.get_flight_info(command)
    streamed = bare.do_get(info.endpoints[0].ticket).schema
    assert told == bare.get_schema(command).schema == info.schema == streamed
    assert bare.get_schema(descriptor("CommandStatementQuery", query=sql)).schema == told
    assert told.field("b").type == pa.string()


def test_a_query_is_planned_once(bare: flight.FlightClient, database: Any) -> None:
    """GetFlightInfo plans a query once and its fetch not again; a prepared one once more when it is executed."""
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
    assert database.plans == 1
    bare.do_get(info.endpoints[0].ticket).read_all()
    assert database.plans == 1
    handle = prepare(bare, "SELECT 1 AS a").prepared_statement_handle
    assert database.plans == 2
    command = descriptor("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    bare.do_get(bare.get_flight_info(command).endpoints[0].ticket).read_all()
    assert database.plans == 3


def test_an_update_runs_once_and_never_while_preparing(bare: flight.FlightClient, database: Any) -> None:
    """Preparing and GetSchema only look; GetFlightInfo runs it; fetching gives no rows and runs nothing again."""
    prepared = prepare(bare, "CREATE TABLE t AS SELECT 1 AS a")
    command = descriptor("CommandPreparedStatementQuery", prepared_statement_handle=prepared.prepared_statement_handle)
    bare.get_schema(command)
    told = pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema))
    assert (prepared.is_update, told, database.updates) == (True, pa.schema([]), [])
    info = bare.get_flight_info(command)
    assert len(database.updates) == 1
    assert bare.do_get(info.endpoints[0].ticket).read_all().num_rows == 0
    assert len(database.updates) == 1


def test_parameters_in_any_order_of_names(bare: flight.FlightClient) -> None:
    """Numbered parameters are taken by number, others by place; several rows give several results."""
    prepared = prepare(bare, "SELECT ? AS a, ? AS b")
    command = descriptor("CommandPreparedStatementQuery", prepared_statement_handle=prepared.prepared_statement_handle)
    put(bare, command, pa.table({"1": ["second", "fourth"], "0": ["first", "third"]}))
    rows = bare.do_get(bare.get_flight_info(command).endpoints[0].ticket).read_all().to_pylist()
    assert rows == [{"a": "first", "b": "second"}, {"a": "third", "b": "fourth"}]


def test_a_prepared_update_by_put(bare: flight.FlightClient, database: Any) -> None:
    """JDBC sends updates by DoPut; the answer counts the rows."""
    bare.get_flight_info(descriptor("CommandStatementQuery", query="CREATE TABLE t AS SELECT 'x' AS a"))
    handle = prepare(bare, "INSERT INTO t VALUES (?)").prepared_statement_handle
    answer = put(
        bare,
        descriptor("CommandPreparedStatementUpdate", prepared_statement_handle=handle),
        pa.table({"0": ["y", "z"]}),
    )
    assert message_class("arrow.flight.protocol.sql.DoPutUpdateResult").FromString(answer).record_count == 2
    assert database.context.table("t").count() == 3


def test_a_closed_statement_is_gone(bare: flight.FlightClient) -> None:
    """Using a closed handle says so."""
    handle = prepare(bare, "SELECT 1").prepared_statement_handle
    body = pack(sql_message("ActionClosePreparedStatementRequest", prepared_statement_handle=handle))
    list(bare.do_action(flight.Action("ClosePreparedStatement", body)))
    with pytest.raises(pa.ArrowKeyError, match="no such prepared statement"):
        bare.get_flight_info(descriptor("CommandPreparedStatementQuery", prepared_statement_handle=handle))


def test_a_ticket_may_be_fetched_again(bare: flight.FlightClient) -> None:
    """A second fetch runs the query again."""
    ticket = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a")).endpoints[0].ticket
    assert bare.do_get(ticket).read_all() == bare.do_get(ticket).read_all()


@pytest.mark.parametrize("part", [b"", b"x", b"-1", b"1" * 5_000], ids=["empty", "letter", "sign", "5,000 digits"])
def test_a_ticket_of_no_part(bare: flight.FlightClient, part: bytes) -> None:
    """A ticket that was never given out is told from one, whatever stands where the part's number should."""
    ticket = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a")).endpoints[0].ticket
    handle = unpack_as("TicketStatementQuery", ticket.ticket).statement_handle + PART + part
    with pytest.raises(pa.ArrowKeyError, match="no such query"):
        bare.do_get(flight.Ticket(pack(sql_message("TicketStatementQuery", statement_handle=handle)))).read_all()


def test_batches_stay_below_two_mebibytes(bare: flight.FlightClient, server: FlightSqlServer, database: Any) -> None:
    """A large batch of the engine is cut for clients with small message limits."""
    database.context.register_record_batches("big", [[pa.record_batch({"a": ["x" * 1_000] * 8_000})]])
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT * FROM big"))
    sizes = [chunk.data.nbytes for chunk in bare.do_get(info.endpoints[0].ticket)]
    assert max(sizes) <= 2 << 20
    assert sum(sizes) > 7_000_000
    del server


def test_session_options(bare: flight.FlightClient) -> None:
    """Set, get and close; a bad name and a bad value are told apart, and a missing catalog alone is not found."""
    request = flight_message("SetSessionOptionsRequest")
    for key, value in {"optimizer": "off", "flightllm.optimizer": "maybe", "nothing": "1", "catalog": "other"}.items():
        request.session_options[key].string_value = value
    errors = {k: e.value for k, e in act(bare, "SetSessionOptions", request, "SetSessionOptionsResult").errors.items()}
    assert errors == {"flightllm.optimizer": 2, "nothing": 1, "catalog": 2}
    assert _options(bare) == {"catalog": "flightllm", "schema": "public", "optimizer": "off"}
    alone = flight_message("SetSessionOptionsRequest")
    alone.session_options["catalog"].string_value = "other"
    with pytest.raises(pa.ArrowKeyError, match="there is no catalog 'other'"):
        act(bare, "SetSessionOptions", alone, "SetSessionOptionsResult")
    act(bare, "CloseSession", flight_message("CloseSessionRequest"), "CloseSessionResult")
    assert _options(bare)["optimizer"] == "on"


def _options(bare: flight.FlightClient) -> dict[str, str]:
    answer = act(bare, "GetSessionOptions", flight_message("GetSessionOptionsRequest"), "GetSessionOptionsResult")
    return {key: value.string_value for key, value in answer.session_options.items()}


def test_connections_do_not_share_a_session(bare: flight.FlightClient, server: FlightSqlServer) -> None:
    """Without cookie and token, each connection is a session."""
    request = flight_message("SetSessionOptionsRequest")
    request.session_options["optimizer"].string_value = "off"
    act(bare, "SetSessionOptions", request, "SetSessionOptionsResult")
    # gRPC shares a connection between equal channels of one process; an option of its own makes it another.
    with flight.FlightClient(server.uri, generic_options=[("flightllm.test", 1)]) as other:
        assert _options(other)["optimizer"] == "on"
    assert _options(bare)["optimizer"] == "off"


def test_a_cookie_finds_its_session(server: FlightSqlServer) -> None:
    """A client that keeps cookies may come over another connection."""
    factory = _CookieFactory()
    with flight.FlightClient(server.uri, middleware=[factory]) as first:
        request = flight_message("SetSessionOptionsRequest")
        request.session_options["optimizer"].string_value = "off"
        act(first, "SetSessionOptions", request, "SetSessionOptionsResult")
    with flight.FlightClient(server.uri, middleware=[factory], generic_options=[("flightllm.test", 2)]) as second:
        assert _options(second)["optimizer"] == "off"


class _CookieFactory(flight.ClientMiddlewareFactory):
    def __init__(self) -> None:
        super().__init__()
        self.cookie: str | None = None

    def start_call(self, _info: Any) -> "_Cookies":
        return _Cookies(self)


class _Cookies(flight.ClientMiddleware):
    def __init__(self, factory: _CookieFactory) -> None:
        super().__init__()
        self._factory = factory

    def sending_headers(self) -> dict[str, str]:
        return {"cookie": self._factory.cookie} if self._factory.cookie else {}

    def received_headers(self, headers: dict[str, list[str]]) -> None:
        for value in headers.get("set-cookie", []):
            self._factory.cookie = value.partition(";")[0]


def test_cancel_flight_info(bare: flight.FlightClient, database: Any) -> None:
    """Another call with the FlightInfo stops the stream."""
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SLOW"))
    request = flight_message("CancelFlightInfoRequest", info=info.serialize())

    def cancel() -> None:
        await_true(database.records[-1].begun.is_set)
        act(bare, "CancelFlightInfo", request, "CancelFlightInfoResult")

    threading.Thread(target=cancel).start()
    reader = bare.do_get(info.endpoints[0].ticket)
    with pytest.raises(flight.FlightCancelledError):
        reader.read_chunk()
    assert database.records[-1].closed.wait(30)


def test_cancel_of_what_was_read(bare: flight.FlightClient) -> None:
    """A query that was read to its end cannot be cancelled, however often one asks; one not fetched is, as often."""
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
    request = flight_message("CancelFlightInfoRequest", info=info.serialize())
    bare.do_get(info.endpoints[0].ticket).read_all()
    told = [act(bare, "CancelFlightInfo", request, "CancelFlightInfoResult").status for _ in range(3)]
    assert told == [3, 3, 3]
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
    request = flight_message("CancelFlightInfoRequest", info=info.serialize())
    told = [act(bare, "CancelFlightInfo", request, "CancelFlightInfoResult").status for _ in range(3)]
    assert told == [1, 1, 1]


def test_cancel_by_id(client: Client, server: FlightSqlServer, database: Any) -> None:
    """Somebody else stops a query by the id in `system.queries`."""
    batches = client.query("SLOW")[1]
    record = database.get(client.query_id)  # the other client's look at the status becomes a query too
    with Client(server.uri) as other:
        threading.Timer(0.2, other.cancel, (client.query_id,)).start()
        with pytest.raises(CancelledError):
            list(batches)
    assert record.closed.wait(30)


def test_a_client_that_vanishes_stops_its_query(server: FlightSqlServer, database: Any) -> None:
    """Closing the connection before the first batch ends the query."""
    bare = flight.connect(server.uri, generic_options=[("flightllm.test", 3)])
    info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SLOW"))
    reader = bare.do_get(info.endpoints[0].ticket)
    reader.cancel()
    bare.close()
    assert database.records[-1].closed.wait(30)


@pytest.mark.parametrize("command", [b"", b"SELECT 1", b"\xff"])
def test_what_is_no_command(bare: flight.FlightClient, command: bytes) -> None:
    """Bytes that are no Flight SQL command get an error that says so, and the server goes on."""
    with pytest.raises(pa.ArrowInvalid, match="Flight SQL"):
        bare.get_flight_info(flight.FlightDescriptor.for_command(command))
    with pytest.raises(pa.ArrowInvalid, match="Flight SQL"):
        bare.do_get(flight.Ticket(command)).read_all()


def _text(name: str, field: str) -> bytes:
    return pack(sql_message(name, **{field: "SELECT 1" if field == "query" else b"x"}))


def test_wrong_messages(bare: flight.FlightClient) -> None:
    """A Flight SQL message in a place for another is the client's mistake, and named."""
    for body in (
        _text("CommandStatementQuery", "query"),
        _text("ActionClosePreparedStatementRequest", "prepared_statement_handle"),
        _text("CommandPreparedStatementQuery", "prepared_statement_handle"),
    ):
        with pytest.raises(pa.ArrowInvalid, match="TicketStatementQuery was expected"):
            bare.do_get(flight.Ticket(body)).read_all()
    for action, expected in (
        ("CreatePreparedStatement", "ActionCreatePreparedStatementRequest"),
        ("ClosePreparedStatement", "ActionClosePreparedStatementRequest"),
        ("CancelQuery", "ActionCancelQueryRequest"),
    ):
        with pytest.raises(pa.ArrowInvalid, match=f"{expected} was expected, not TicketStatementQuery"):
            list(bare.do_action(flight.Action(action, _text("TicketStatementQuery", "statement_handle"))))


def test_unknown_actions_are_listed(bare: flight.FlightClient) -> None:
    """The error names what there is."""
    with pytest.raises(pa.ArrowNotImplementedError, match="CreatePreparedStatement"):
        list(bare.do_action(flight.Action("Nothing", b"")))
    assert "SetSessionOptions" in [action.type for action in bare.list_actions()]


ACTIONS = {
    *("CreatePreparedStatement", "CreatePreparedSubstraitPlan", "ClosePreparedStatement"),
    *("BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"),
    *("CancelQuery", "CancelFlightInfo", "RenewFlightEndpoint"),
    *("SetSessionOptions", "GetSessionOptions", "CloseSession"),
}
"""The actions of Flight and Flight SQL."""


def test_every_action_takes_bad_bytes(bare: flight.FlightClient) -> None:
    """All actions of the specification are listed, and bytes that are no message of theirs get a plain error."""
    listed = {action.type for action in bare.list_actions()}
    own = {"CancelQueryById", "GetQueryProgress", "Drain", "Quarantine", "LiftQuarantine", "CancelBatch", "RemoveBatch"}
    assert listed - ACTIONS == own
    assert listed >= ACTIONS
    for name in sorted(listed - {"GetSessionOptions", "CloseSession", "Quarantine"}):  # which read no body
        with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError)) as caught:
            list(bare.do_action(flight.Action(name, b"\xff")))
        assert ".py" not in str(caught.value)


MESSAGES = (
    *("CommandGetSqlInfo", "CommandGetXdbcTypeInfo", "CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTables"),
    *("CommandGetTableTypes", "CommandGetPrimaryKeys", "CommandGetExportedKeys", "CommandGetImportedKeys"),
    *("CommandGetCrossReference", "CommandStatementQuery", "CommandPreparedStatementQuery", "CommandStatementUpdate"),
    *("CommandPreparedStatementUpdate", "CommandStatementSubstraitPlan", "CommandStatementIngest"),
    *("TicketStatementQuery", "DoPutUpdateResult", "ActionCreatePreparedStatementRequest", "SubstraitPlan"),
)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_everywhere(bare: flight.FlightClient, name: str) -> None:
    """Whatever message stands in whatever place, the answer is a result or a plain error, never an internal one."""
    body = pack(sql_message(name))
    calls = (
        lambda: bare.get_flight_info(flight.FlightDescriptor.for_command(body)),
        lambda: bare.get_schema(flight.FlightDescriptor.for_command(body)),
        lambda: bare.do_get(flight.Ticket(body)).read_all(),
        lambda: put(bare, flight.FlightDescriptor.for_command(body), pa.table({"a": [1]})),
    )
    answers = [_answer(call) for call in calls]
    assert not [answer for answer in answers if "internal error" in answer or ".py" in answer]


def _answer(call: Callable[[], object]) -> str:
    try:
        return type(call()).__name__
    except pa.ArrowException as error:
        return str(error)


def test_transactions(bare: flight.FlightClient) -> None:
    """A transaction is begun, has statements in it, and ends once; one that was not begun has none."""
    (begun,) = bare.do_action(flight.Action("BeginTransaction", pack(sql_message("ActionBeginTransactionRequest"))))
    name = unpack_as("ActionBeginTransactionResult", begun.body.to_pybytes()).transaction_id
    bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1", transaction_id=name))
    with pytest.raises(pa.ArrowInvalid, match="send COMMIT or ROLLBACK"):
        _end(bare, name, 0)
    _end(bare, name, 1)
    with pytest.raises(pa.ArrowKeyError, match="no such transaction"):
        _end(bare, name, 1)
    with pytest.raises(pa.ArrowKeyError, match="no such transaction"):
        bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1", transaction_id=name))


def _end(bare: flight.FlightClient, name: bytes, action: int) -> None:
    request = sql_message("ActionEndTransactionRequest", transaction_id=name, action=action)
    assert list(bare.do_action(flight.Action("EndTransaction", pack(request)))) == []


def test_uploads_are_bounded(database: Any) -> None:
    """An upload beyond the limit fails with the key of the limit, and leaves no table."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), LimitsConfig(upload_bytes=1_000))
    command = descriptor(
        "CommandStatementIngest", table="t", table_definition_options={"if_not_exist": 1, "if_exists": 1}
    )
    with flight.connect(server.uri) as bare, pytest.raises(pa.ArrowInvalid, match=r"\[limits\] upload_bytes = 1,000"):
        put(bare, command, pa.table({"a": range(1_000)}))
    assert database.tables() == []
    server.drain(0)


def test_a_draining_server_refuses_new_queries(database: Any) -> None:
    """While running queries finish, new ones are told that the server stops; what still runs then is cancelled."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with Client(server.uri) as client, Client(server.uri) as other:
        failures: list[BaseException] = []
        reading = threading.Thread(target=_collect, args=(client.query("SLOW")[1], failures))
        reading.start()
        while not server._core.slots.running:
            reading.join(0.01)
        drained = threading.Thread(target=server.drain, args=(0.5,))
        drained.start()
        server._core.draining.wait(30)
        with pytest.raises(EngineUnavailableError, match="shutting down"):
            other.query("SELECT 1")
        drained.join(30)
        reading.join(30)
    assert [type(failure) for failure in failures] == [CancelledError]
    assert "the server is draining" in str(failures[0])


def _collect(batches: Iterator[pa.RecordBatch], failures: list[BaseException]) -> None:
    try:
        list(batches)
    except CancelledError as exc:
        failures.append(exc)


def test_a_wrong_setting_takes_no_place(database: Any) -> None:
    """Calls with headers that are no settings are refused, and leave room for others."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), flight_limits=FlightLimits(concurrent_queries=1))
    database.wrong_settings = True
    with flight.connect(server.uri) as bare:
        for _ in range(3):
            with pytest.raises(pa.ArrowInvalid, match="no such setting"):
                bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
        database.wrong_settings = False
        info = bare.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
        assert bare.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"a": 1}]


def test_bound_values_are_bounded(database: Any) -> None:
    """Where the values of all prepared statements are too large together, those bound first are dropped with theirs."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), flight_limits=FlightLimits(upload_bytes=3_000))
    with flight.connect(server.uri) as bare:
        handles = [prepare(bare, "SELECT ? AS a").prepared_statement_handle for _ in range(4)]
        for handle in handles:
            put(bare, prepared(handle), pa.table({"1": ["x" * 1_000]}))
        for handle in handles[2:]:
            info = bare.get_flight_info(prepared(handle))
            assert bare.do_get(info.endpoints[0].ticket).read_all()["a"].to_pylist() == ["x" * 1_000]
        for handle in handles[:2]:
            with pytest.raises(KeyError, match="bind them again"):
                bare.get_flight_info(prepared(handle))
    server.drain(0)


def test_values_that_stall(database: Any) -> None:
    """A client that stalls while it binds values has no place for longer than a statement may take."""
    database.time_limit = TimeLimit(0.2)
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with flight.connect(server.uri) as bare:
        handle = prepare(bare, "SELECT ? AS a").prepared_statement_handle
        writer, _ = bare.do_put(prepared(handle), pa.schema([("1", pa.string())]))
        writer.write_batch(pa.record_batch({"1": ["x"]}))
        slots = server._core.slots
        await_true(lambda: slots.waits()[0] == 2 and not slots.running)
        with pytest.raises(flight.FlightTimedOutError, match="statement_seconds"):
            writer.close()
    server.drain(0)
