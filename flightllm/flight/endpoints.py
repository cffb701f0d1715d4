"""The endpoints of a result: tickets for fetching it over the same connection, and their expiration times."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import InvalidInputError
from flightllm.flight.core import PART, Core
from flightllm.flight.messages import pack, sql_message, unpack


def ticket(handle: bytes) -> flight.Ticket:
    """Return the ticket of a statement, or of a part of one."""
    return flight.Ticket(pack(sql_message("TicketStatementQuery", statement_handle=handle)))


def endpoints(core: Core, handle: bytes, parts: int) -> list[flight.FlightEndpoint]:
    """Return the endpoints of a statement in `parts` parts.

    A whole result has an expiration time: until then clients can fetch it again. A part can be fetched only once.
    """
    if parts > 1:
        return [flight.FlightEndpoint(ticket(handle + PART + str(part).encode()), []) for part in range(parts)]
    return [_lasting(core, ticket(handle))]


def renewed(core: Core, context: flight.ServerCallContext, serialized: bytes) -> flight.FlightEndpoint:
    """Return an endpoint with its new expiration time; an endpoint without expiration time stays as it is.

    Raises:
        InvalidInputError: the bytes are not an endpoint.
        NotFoundError: the endpoint has expired.
    """
    try:
        given = flight.FlightEndpoint.deserialize(serialized)
    except pa.ArrowException as exc:
        raise InvalidInputError("the request to renew holds no FlightEndpoint: send the endpoint") from exc
    if given.expiration_time is None:
        return given
    command = unpack(given.ticket.ticket)
    if command.name != "TicketStatementQuery":
        return given
    core.statement_of(context, command.message.statement_handle)  # the lookup extends the statement's life
    return _lasting(core, given.ticket)


def _lasting(core: Core, given: flight.Ticket) -> flight.FlightEndpoint:
    until = datetime.now(UTC) + timedelta(seconds=core.limits.unfetched_seconds)
    return flight.FlightEndpoint(given, [], pa.scalar(until, pa.timestamp("ns", "UTC")))
