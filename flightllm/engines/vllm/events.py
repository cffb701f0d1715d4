"""Configure vLLM to publish KV events: which blocks its prefix cache stores and evicts."""

from __future__ import annotations

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from flightllm.engines.kv_addresses import check_bind_address
from flightllm.llm.engine import KvEventsAddress


class KvPublishing:
    """The addresses of one vLLM engine's KV events; `listen` is a ZeroMQ address, or True for a socket on this host.

    Raises:
        ValueError: vLLM cannot listen at an address.
    """

    def __init__(self, listen: bool | str, replay: str = "") -> None:  # noqa: FBT001 - an option of the configuration
        self._folder: TemporaryDirectory[str] | None = None
        if replay and not (listen and isinstance(listen, str)):
            raise ValueError('kv_replay: needs an address of new events; write kv_events = "tcp://*:5557" too')
        if isinstance(listen, str):
            check_bind_address("kv_events", listen)
            check_bind_address("kv_replay", replay)
            self._bound = KvEventsAddress(listen, replay)
        else:
            self._bound = KvEventsAddress("")

    def open(self) -> dict[str, object]:
        """Return the engine arguments that make vLLM publish events."""
        from vllm.config import KVEventsConfig

        if not self._bound.endpoint:
            self._folder = TemporaryDirectory(prefix="flightllm-kv-")
            self._bound = KvEventsAddress(f"ipc://{self._folder.name}/events", f"ipc://{self._folder.name}/past")
        config: Any = KVEventsConfig(
            enable_kv_cache_events=True,
            publisher="zmq",
            endpoint=self._bound.endpoint,
            replay_endpoint=self._bound.replay or None,
            topic=self._bound.topic,
        )
        return {"kv_events_config": config}

    @property
    def address(self) -> KvEventsAddress:
        """Return the address to which this process can subscribe; a client on another host must replace the host."""
        bound = self._bound
        return replace(bound, endpoint=_reached(bound.endpoint), replay=_reached(bound.replay))

    def close(self) -> None:
        """Remove the folder of the sockets. Idempotent."""
        if self._folder is not None:
            self._folder.cleanup()


def _reached(address: str) -> str:
    return address.replace("*", "127.0.0.1")
