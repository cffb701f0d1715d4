"""A KV chunk store as a Flight service, only for admins and holders of the token: chunks reveal prompts."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

from pyarrow import flight

from flightllm.access.login import Login
from flightllm.config import ServerConfig
from flightllm.config.checks import host_and_port
from flightllm.errors import CancelledError, InvalidInputError, PermissionDeniedError, UnsupportedError
from flightllm.flight.auth import CALL, CallFactory, Handshake, call_of
from flightllm.flight.errors import boundary, hide_tracebacks, statuses
from flightllm.kvcache.store.disk import DiskStore
from flightllm.kvcache.store.messages import ACTIONS, DATA, batch_of, packed, parts_of, unpacked

_STOP_SECONDS = 5.0
"""The time that running calls get to end when the store stops."""


class KvServer(flight.FlightServerBase):
    """Serves `store` at `listen`, with the SQL server's certificate and users; the constructor starts listening.

    Raises:
        ConfigError: other machines can reach the address, but there is no login or no TLS.
        pyarrow.ArrowException: the address cannot be used.
    """

    def __init__(self, store: DiskStore, listen: str, config: ServerConfig, login: Login) -> None:
        config.check_exposure(asks_nobody=login.is_open, section="kvstore", listen=listen)
        hide_tracebacks()
        self._store = store
        self._stopping = threading.Event()
        self._host, port = host_and_port("[kvstore] listen", listen)
        tls = config.read_tls()
        self._scheme = "grpc" if tls is None else "grpc+tls"
        certificates = {} if tls is None else {"tls_certificates": [(tls.certificate, tls.key)]}
        make = flight.Location.for_grpc_tcp if tls is None else flight.Location.for_grpc_tls
        super().__init__(
            make(self._host, port), middleware={CALL: CallFactory(login)}, auth_handler=Handshake(login), **certificates
        )

    @property
    def uri(self) -> str:
        """Return the address that clients connect to."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._scheme}://{host}:{self.port}"

    def refused(self, error: BaseException) -> None:
        """Do nothing: refused calls of the KV store are not counted as refused statements."""

    def stop(self) -> bool:
        """Cancel running calls, stop listening and close the store; return whether all calls ended. Idempotent."""
        self._stopping.set()
        stopping = threading.Thread(target=self.shutdown, name="shutdown", daemon=True)
        stopping.start()
        stopping.join(_STOP_SECONDS)
        self._store.close()
        return not stopping.is_alive()

    # --- calls: they run on gRPC's threads, several at once

    @boundary
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Stream a chunk's bitstream."""
        _admit(context)
        asked = unpacked(ticket.ticket)
        parts = self._store.get(asked.get("key", ""), asked.get("codec", ""))
        first = list(islice(parts, 1))  # a missing chunk must raise before anything is sent
        return flight.GeneratorStream(DATA, self._batches(chain(first, parts)))

    @boundary
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        _writer: flight.FlightMetadataWriter,
    ) -> None:
        """Store a bitstream; if fewer bytes arrive than announced, store nothing."""
        _admit(context)
        asked = unpacked(descriptor.command or b"")
        size = asked.get("bytes")
        if type(size) is not int or size < 0:
            raise InvalidInputError(
                'the descriptor of a KV chunk must have its size: {"key": …, "codec": …, "bytes": …}'
            )
        self._store.put_parts(asked.get("key", ""), asked.get("codec", ""), size, self._received(reader))

    @boundary
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Look up chunks, return the status, or delete chunks."""
        _admit(context)
        answer = self._act(action.type, unpacked(action.body.to_pybytes()))
        return iter([flight.Result(packed(**answer))])

    @boundary
    def list_actions(self, _context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Return the names and descriptions of all actions."""
        return list(ACTIONS)

    def _act(self, kind: str, asked: Mapping[str, Any]) -> dict[str, object]:
        match kind:
            case "lookup":
                return {"held": [dict(held) for held in self._store.lookup(_keys(asked))]}
            case "status":
                status = self._store.status()
                codecs = {codec: asdict(held) for codec, held in status.codecs.items()}
                figures = {name: getattr(status, name) for name in status.__slots__}
                return {**figures, "codecs": codecs}
            case "delete" if asked.get("all") is True:
                return {"deleted": self._store.clear()}
            case "delete":
                return {"deleted": self._store.delete(_keys(asked))}
        raise UnsupportedError(f"there is no action {kind!r}; there are: {', '.join(name for name, _ in ACTIONS)}")

    def _batches(self, parts: Iterable[memoryview]) -> Iterator[Any]:
        with statuses():
            for part in parts:
                self._check_running()
                yield batch_of(part)

    def _received(self, reader: flight.MetadataRecordBatchReader) -> Iterator[memoryview]:
        for chunk in reader:
            self._check_running()
            yield from parts_of(chunk.data)

    def _check_running(self) -> None:
        if self._stopping.is_set():
            raise CancelledError("the KV store is shutting down")


def _admit(context: flight.ServerCallContext) -> None:
    """Raise `PermissionDeniedError` unless an admin calls."""
    principal = call_of(context).principal
    if principal is None or not principal.is_admin:
        raise PermissionDeniedError("only admins can use a KV store, because its chunks reveal prompts")


def _keys(asked: Mapping[str, Any]) -> list[str]:
    keys = asked.get("keys")
    if not isinstance(keys, list):
        raise InvalidInputError('the call names no chunks: write {"keys": […]}')
    return keys
