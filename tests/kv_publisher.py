"""Tells a prefix cache's events as vLLM does, over real sockets: numbered batches, and past ones when asked."""

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
import zmq

from flightllm.llm.engine import KvEventsAddress

END = (-1).to_bytes(8, "big", signed=True)
WAIT_SECONDS = 30


def stored(blocks: dict[bytes, list[int]], parent: bytes | None = None, **further: Any) -> dict[str, Any]:
    """Return an event: blocks by their hashes, in order, are held."""
    return {
        "type": "BlockStored",
        "block_hashes": list(blocks),
        "parent_block_hash": parent,
        "token_ids": [token for block in blocks.values() for token in block],
        "block_size": len(next(iter(blocks.values()))),
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "group_idx": 0,
        **further,
    }


def removed(*hashes: bytes, **further: Any) -> dict[str, Any]:
    """Return an event: blocks are gone."""
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU", "group_idx": 0, **further}


CLEARED = {"type": "AllBlocksCleared"}


class KvPublisher:
    """One life of an engine's publisher. `replays` false: what is asked for again is not kept any more."""

    def __init__(self, address: KvEventsAddress, *, replays: bool = True, first: int = 0) -> None:
        self._context = zmq.Context()
        self._events = self._context.socket(zmq.XPUB)  # as PUB, but hears of subscribers
        self._events.bind(address.endpoint)
        self._topic = address.topic.encode()
        self._kept: list[tuple[int, bytes]] = []
        self._replays = replays
        self._number = first
        self.asked: list[int] = []
        """From which number on past batches were asked for."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(address.replay,), daemon=True)
        if address.replay:
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Be gone, as a process that was killed."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._events.close(0)
        self._context.term()

    def wait(self) -> None:
        """Wait for a subscriber."""
        assert self._events.poll(WAIT_SECONDS * 1_000)
        assert self._events.recv()[:1] == b"\x01"

    def tell(self, *events: object, heard: bool = True) -> None:
        """Send a batch, or only count it and keep it, as if it got lost on its way."""
        self.send(msgspec.msgpack.encode([time.time(), events, 0]), heard=heard)

    def send(self, payload: bytes, *, heard: bool = True) -> None:
        """Send a batch as it is."""
        number, self._number = self._number, self._number + 1
        self._kept.append((number, payload))
        if heard:
            self._events.send_multipart([self._topic, number.to_bytes(8, "big"), payload])

    def again(self, frames: Sequence[bytes]) -> None:
        """Send these frames, whatever they are."""
        self._events.send_multipart(frames)

    def _serve(self, endpoint: str) -> None:
        with self._context.socket(zmq.ROUTER) as past:
            past.linger = 0
            past.bind(endpoint)
            while not self._closed.is_set():
                if not past.poll(20):
                    continue
                who, _, start = past.recv_multipart()
                first = int.from_bytes(start, "big")
                self.asked.append(first)
                for number, payload in self._kept if self._replays else ():
                    if number >= first:
                        past.send_multipart([who, b"", self._topic, number.to_bytes(8, "big"), payload])
                past.send_multipart([who, b"", b"", END, b""])
