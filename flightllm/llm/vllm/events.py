"""Have vLLM tell what its prefix cache takes up and lets go, and say where."""

from __future__ import annotations

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from flightllm.llm.kv_addresses import check_told
from flightllm.model.engine import KvEventsAddress


class KvPublishing:
    """Where one vLLM engine tells its events; `listen` is a ZeroMQ address, or True for one that only this host has.

    Raises:
        ValueError: vLLM would not listen at such an address.
    """

    def __init__(self, listen: bool | str, replay: str = "") -> None:  # noqa: FBT001 - an option as it was written
        self._folder: TemporaryDirectory[str] | None = None
        if replay and not (listen and isinstance(listen, str)):
            raise ValueError('kv_replay: write where events are told too, as kv_events = "tcp://*:5557"')
        if isinstance(listen, str):
            check_told("kv_events", listen)
            check_told("kv_replay", replay)
            self._bound = KvEventsAddress(listen, replay)
        else:
            self._bound = KvEventsAddress("")

    def open(self) -> dict[str, object]:
        """Return the arguments of the engine that say so."""
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
        """Return where this process can subscribe; from another host the host's name is to be put in."""
        bound = self._bound
        return replace(bound, endpoint=_reached(bound.endpoint), replay=_reached(bound.replay))

    def close(self) -> None:
        """Remove what was made for it. Idempotent."""
        if self._folder is not None:
            self._folder.cleanup()


def _reached(address: str) -> str:
    return address.replace("*", "127.0.0.1")
