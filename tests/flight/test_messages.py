"""Protobuf messages live in a pool of our own."""

import subprocess
import sys

import pytest
from google.protobuf import any_pb2

from flightllm.errors import InvalidInputError, UnsupportedError
from flightllm.flight.messages import flight_message, message_class, pack, parse_flight, sql_message, unpack


def test_round_trip() -> None:
    """A packed command comes back with its name and fields."""
    command = unpack(pack(sql_message("CommandStatementQuery", query="SELECT 1")))
    assert (command.name, command.message.query) == ("CommandStatementQuery", "SELECT 1")


def test_default_pool_stays_clean() -> None:
    """The definitions are not registered where another package's copy would clash.

    In a process of its own: a client under test registers its copy.
    """
    name = "arrow.flight.protocol.sql.CommandStatementQuery"
    script = f"""
from google.protobuf import descriptor_pool
from flightllm.flight.messages import message_class
message_class("{name}")
descriptor_pool.Default().FindMessageTypeByName("{name}")
"""
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert "KeyError" in ran.stderr


def test_is_update_has_the_published_number() -> None:
    """JDBC reads `is_update` as field 4."""
    fields = message_class("arrow.flight.protocol.sql.ActionCreatePreparedStatementResult").DESCRIPTOR.fields_by_name
    assert fields["is_update"].number == 4


@pytest.mark.parametrize("data", [b"SELECT 1", b"", b"\xff\xff"])
def test_what_is_no_flight_sql_is_refused(data: bytes) -> None:
    """Bytes that are no Flight SQL message get an error that says what was expected."""
    with pytest.raises(InvalidInputError, match="Flight SQL"):
        unpack(data)


def test_unknown_message() -> None:
    """A Flight SQL message this server does not know is named."""
    packed = any_pb2.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandNew")
    with pytest.raises(UnsupportedError, match="CommandNew"):
        unpack(packed.SerializeToString())


def test_session_messages_are_not_wrapped() -> None:
    """Session actions carry the raw message."""
    request = flight_message("SetSessionOptionsRequest")
    request.session_options["optimizer"].bool_value = False
    parsed = parse_flight("SetSessionOptionsRequest", request.SerializeToString())
    assert parsed.session_options["optimizer"].WhichOneof("option_value") == "bool_value"
