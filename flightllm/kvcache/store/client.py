"""A client of a KV store, over Arrow Flight."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from flightllm.common.flight_address import checked_uri, plain
from flightllm.errors import (
    ConfigError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    StoreUnavailableError,
)
from flightllm.kvcache.store.messages import DATA, batch_of, packed, parts_of, unpacked
from flightllm.kvcache.store.names import PART_BYTES, check_keys, check_names
from flightllm.kvcache.store.status import CodecUsage, StoreStatus

_STATUS = re.compile(r"Flight returned [\w ]+ error, with message: ")
"""The prefix that Arrow puts before a message."""
_CONNECTING = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""gRPC's reconnection times: try an absent server again within a second (default: up to two minutes).

A server that accepts the connection and stays silent is dropped after two seconds; gRPC calls that limit the smallest
pause.
"""


class FlightStore:
    """A `ChunkStore` at `uri`, served by `flightllm kvstore serve` or `[kvstore] listen`. Thread-safe.

    `token`, or `login` (a user's name and password), authenticates the client. `tls_ca` is a file of certificates to
    trust in place of the system's, for `grpc+tls://`. Every call, with its transfer, ends after `timeout` seconds. An
    absent server is noticed at once, and used again when it is back.

    Raises:
        InvalidInputError: `uri` does not have the form grpc://HOST:PORT.
        ConfigError: `tls_ca` cannot be read.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        login: tuple[str, str] | None = None,
        tls_ca: Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        if not timeout > 0:
            raise InvalidInputError(f"a timeout of {timeout:g} seconds is too short: give a timeout above 0")
        self._uri = checked_uri(uri)
        self._timeout = timeout
        self._open = True
        trusted = {} if tls_ca is None else {"tls_root_certs": _read(tls_ca)}
        self._options = flight.FlightCallOptions(timeout=timeout, headers=_headers(token, login))
        with self._our_errors():
            self._client = flight.FlightClient(uri, generic_options=list(_CONNECTING), **trusted)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._open = False
        self._client.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return the sizes of each chunk's bitstreams; see `ChunkStore.lookup`."""
        check_keys(keys)
        held = self._ask("lookup", keys=list(keys)).get("held")
        if not isinstance(held, list) or len(held) != len(keys) or not all(isinstance(one, dict) for one in held):
            raise self._no_store()
        return [MappingProxyType(one) for one in held]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream as it arrives; see `ChunkStore.get`."""
        check_names(key, codec)
        ticket = flight.Ticket(packed(key=key, codec=codec))
        with self._our_errors():
            reader = self._client.do_get(ticket, self._options)
            try:
                for chunk in reader:
                    yield from parts_of(chunk.data)
            finally:
                reader.cancel()

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream; see `ChunkStore.put`. When this returns, the store has all bytes."""
        check_names(key, codec)
        whole = memoryview(data).cast("B")
        about = flight.FlightDescriptor.for_command(packed(key=key, codec=codec, bytes=len(whole)))
        with self._our_errors(invalid=LimitExceededError):
            writer, _ = self._client.do_put(about, DATA, self._options)
            with writer:
                for start in range(0, len(whole), PART_BYTES):
                    writer.write_batch(batch_of(whole[start : start + PART_BYTES]))

    def delete(self, keys: Sequence[str]) -> int:
        """Delete all bitstreams of some chunks; return the number of deleted bitstreams."""
        check_keys(keys)
        return int(self._ask("delete", keys=list(keys)).get("deleted", 0))

    def clear(self) -> int:
        """Delete all bitstreams; return their number."""
        return int(self._ask("delete", all=True).get("deleted", 0))

    def status(self) -> StoreStatus:
        """Return the store's contents and request counts since it was opened."""
        told = dict(self._ask("status"))
        try:
            codecs = {codec: CodecUsage(**held) for codec, held in told.pop("codecs").items()}
            return StoreStatus(codecs=MappingProxyType(codecs), **told)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._no_store() from error

    def _ask(self, action: str, **fields: object) -> Mapping[str, Any]:
        with self._our_errors():
            asked = flight.Action(action, packed(**fields))
            results = list(self._client.do_action(asked, self._options))
        try:
            return unpacked(results[0].body.to_pybytes())
        except (IndexError, InvalidInputError) as error:
            raise self._no_store() from error

    def _no_store(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"the server at {self._uri} is not a KV store of this version")

    @contextmanager
    def _our_errors(self, invalid: type[FlightLLMError] = StoreUnavailableError) -> Iterator[None]:
        """Turn a Flight status into an error of ours; `invalid` is the class for requests that the store rejects."""
        if not self._open:
            raise StoreUnavailableError(f"the connection to the KV store at {self._uri} was closed")
        try:
            yield
        except KeyboardInterrupt as error:
            # pyarrow turns the server's status CANCELLED into KeyboardInterrupt.
            if not isinstance(error.__context__, flight.FlightCancelledError):
                raise
            raise StoreUnavailableError(f"the KV store at {self._uri} is shutting down") from error
        except InvalidInputError as error:  # the data is not a bitstream
            raise self._no_store() from error
        except pa.ArrowKeyError as error:
            raise NotFoundError(plain(str(error))) from error
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            kind = invalid if isinstance(error, pa.ArrowInvalid) else StoreUnavailableError
            raise kind(self._said(error)) from error

    def _said(self, error: Exception) -> str:
        """Return the message for a status."""
        text = str(error)
        if isinstance(error, flight.FlightUnauthenticatedError):
            return f"the KV store at {self._uri} asks who you are: give a valid token, or a user and password"
        if isinstance(error, flight.FlightTimedOutError):
            return f"the KV store at {self._uri} did not answer within {self._timeout:g} seconds"
        if isinstance(error, flight.FlightUnavailableError) and "handshake failed" in text.lower():
            return f"the KV store at {self._uri} has no trusted TLS certificate: set tls_ca, or write grpc://"
        if isinstance(error, flight.FlightUnavailableError) and "failed to connect" in text:
            return f"no KV store answers at {self._uri}"
        return f"the KV store at {self._uri}: {_STATUS.sub('', plain(text))}"


def _headers(token: str | None, login: tuple[str, str] | None) -> list[tuple[bytes, bytes]]:
    """Return the credentials that every call carries, so that they work after a restart of the server too."""
    if login is not None:
        return [(b"authorization", b"Basic " + base64.b64encode(":".join(login).encode()))]
    return [] if token is None else [(b"authorization", f"Bearer {token}".encode())]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the certificates {path}: {error.strerror}") from error
