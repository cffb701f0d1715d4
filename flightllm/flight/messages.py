"""Protobuf messages of Flight and Flight SQL, in a descriptor pool of our own.

Other packages in the process can register the same definitions in protobuf's default pool, where two copies clash.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from flightllm.errors import InvalidInputError, UnsupportedError

SQL_PACKAGE = "arrow.flight.protocol.sql"
FLIGHT_PACKAGE = "arrow.flight.protocol"
_TYPE_URL = "type.googleapis.com/"


@dataclass(frozen=True, slots=True)
class Command:
    """One decoded Flight SQL message: its short name and its fields."""

    name: str
    message: Any


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """Load the shipped descriptors once per process; they never change."""
    pool = descriptor_pool.DescriptorPool()
    raw = files("flightllm.flight").joinpath("proto", "descriptors.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(raw).file:
        pool.Add(file)
    return pool


@cache
def message_class(full_name: str) -> Any:
    """Return the message class of `full_name`.

    Raises:
        UnsupportedError: this server knows no message of that name.
    """
    try:
        descriptor = _pool().FindMessageTypeByName(full_name)
    except KeyError as exc:
        raise UnsupportedError(f"this server does not know the message {full_name}") from exc
    return message_factory.GetMessageClass(descriptor)


def sql_message(name: str, **fields: object) -> Any:
    """Build the Flight SQL message `name` from its fields."""
    return message_class(f"{SQL_PACKAGE}.{name}")(**fields)


def flight_message(name: str, **fields: object) -> Any:
    """Build the Flight message `name` from its fields."""
    return message_class(f"{FLIGHT_PACKAGE}.{name}")(**fields)


def pack(message: Any) -> bytes:
    """Serialize `message` inside a `google.protobuf.Any`, as Flight SQL commands travel."""
    packed = any_pb2.Any(type_url=_TYPE_URL + message.DESCRIPTOR.full_name, value=message.SerializeToString())
    return packed.SerializeToString()


def unpack(data: bytes) -> Command:
    """Decode a Flight SQL command, ticket or action body from its `Any`.

    Raises:
        InvalidInputError: the bytes are not a Flight SQL message.
            UnsupportedError: this server does not implement the message.
    """
    try:
        packed = any_pb2.Any.FromString(data)
    except DecodeError as exc:
        raise InvalidInputError("the command is not a Flight SQL message: send a google.protobuf.Any") from exc
    full_name = packed.type_url.removeprefix(_TYPE_URL)
    if not full_name.startswith(SQL_PACKAGE + "."):
        raise InvalidInputError("the command is not a Flight SQL message: send an arrow.flight.protocol.sql command")
    return Command(full_name.rsplit(".", 1)[1], _parse(full_name, packed.value))


def unpack_as(name: str, data: bytes) -> Any:
    """Decode the message of a ticket or action body that must be of the Flight SQL kind `name`.

    Raises:
        InvalidInputError: the data is another message, or not a message.
    """
    command = unpack(data)
    if command.name != name:
        raise InvalidInputError(f"a message {name} was expected, not {command.name}")
    return command.message


def parse_flight(name: str, data: bytes) -> Any:
    """Decode the raw Flight message `name` (session and cancel actions are not wrapped in `Any`).

    Raises:
        InvalidInputError: the bytes are not that message.
    """
    return _parse(f"{FLIGHT_PACKAGE}.{name}", data)


def _parse(full_name: str, data: bytes) -> Any:
    try:
        return message_class(full_name).FromString(data)
    except DecodeError as exc:
        raise InvalidInputError(f"the bytes sent are not a {full_name}") from exc
