"""Flight SQL spoken by hand: messages made and read one by one, over a bare Flight client."""

from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.flight.messages import FLIGHT_PACKAGE, SQL_PACKAGE, message_class, pack, sql_message, unpack


def descriptor(name: str, **fields: object) -> flight.FlightDescriptor:
    """Return the descriptor of a command."""
    return flight.FlightDescriptor.for_command(pack(sql_message(name, **fields)))


def query(sql: str) -> flight.FlightDescriptor:
    """Return the descriptor of a query."""
    return descriptor("CommandStatementQuery", query=sql)


def prepare(client: flight.FlightClient, sql: str) -> Any:
    """Prepare a statement and return the answer."""
    body = pack(sql_message("ActionCreatePreparedStatementRequest", query=sql))
    (result,) = client.do_action(flight.Action("CreatePreparedStatement", body))
    return unpack(result.body.to_pybytes()).message


def prepared(handle: bytes, name: str = "CommandPreparedStatementQuery") -> flight.FlightDescriptor:
    """Return the descriptor of a prepared statement."""
    return descriptor(name, prepared_statement_handle=handle)


def act(client: flight.FlightClient, action: str, request: Any, answer: str) -> Any:
    """Run an action whose messages are Flight's own, and return its answer."""
    (result,) = client.do_action(flight.Action(action, request.SerializeToString()))
    return message_class(f"{FLIGHT_PACKAGE}.{answer}").FromString(result.body.to_pybytes())


def put(client: flight.FlightClient, command: flight.FlightDescriptor, table: pa.Table) -> bytes:
    """Upload a table and return the server's answer."""
    writer, reader = client.do_put(command, table.schema)
    writer.write_table(table)
    writer.done_writing()
    answer = reader.read()
    writer.close()
    return bytes(answer.to_pybytes())


def count(answer: bytes) -> int:
    """Return the number of rows that an update's answer tells."""
    return int(message_class(f"{SQL_PACKAGE}.DoPutUpdateResult").FromString(answer).record_count)


def fetch(client: flight.FlightClient, command: flight.FlightDescriptor) -> pa.Table:
    """Return all rows of a command, endpoint by endpoint."""
    info = client.get_flight_info(command)
    return pa.concat_tables(client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints)
