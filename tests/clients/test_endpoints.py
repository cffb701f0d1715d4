"""The tickets of a result: several at once, cancelled, renewed, and with the progress of its query."""

import json
import threading

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.flight.messages import flight_message, pack, sql_message
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.flight_messages import act, descriptor, fetch, query

CANCELLED = (flight.FlightCancelledError, KeyboardInterrupt)
"""What pyarrow makes of the status CANCELLED: it may take it for Ctrl-C."""


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
    with pytest.raises(pa.ArrowKeyError, match="part 1 of the result was fetched before"):
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


@pytest.mark.slow
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
