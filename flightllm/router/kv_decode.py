"""Read the batches in which vLLM tells what its prefix cache takes up and lets go.

A batch is a list in MessagePack: the time, the events, and the rank of a data-parallel engine. Events are maps with
their kind as `type`. Other versions of vLLM know further fields and kinds: both are passed over.
"""

from __future__ import annotations

from typing import Any

from flightllm.errors import MissingExtraError
from flightllm.router.mirror import BlockHash, KvMirror
from flightllm.router.tree import pack

try:
    import msgspec
except ImportError as exc:
    raise MissingExtraError("an engine's account of its prefix cache", "cluster") from exc

_DEVICE_TIERS = ("GPU", None)
"""What vLLM calls the tier that prompts are served from, on a CPU too: `CPU` is where it offloads to."""


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[msgspec.Raw]


class _Event(msgspec.Struct):
    type: str


class _Removed(msgspec.Struct):
    block_hashes: list[bytes | int]
    medium: str | None = None
    group_idx: int | None = None


class _Stored(_Removed, kw_only=True):
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    lora_id: int | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None


class Decoder:
    """Reads batches and tells them to a mirror. One thread at a time."""

    def __init__(self) -> None:
        self._batch = msgspec.msgpack.Decoder(_Batch)
        self._kind = msgspec.msgpack.Decoder(_Event)
        self._stored = msgspec.msgpack.Decoder(_Stored)
        self._removed = msgspec.msgpack.Decoder(_Removed)

    def read(self, payload: bytes) -> list[_Event | _Stored | _Removed]:
        """Return the events of a batch that concern us, in order; a plain `_Event` says that all is gone.

        Raises:
            ValueError: it is no batch, or a known kind of event lacks what it needs.
        """
        found: list[_Event | _Stored | _Removed] = []
        for raw in self._batch.decode(payload).events:
            event = self._kind.decode(raw)
            if event.type == "AllBlocksCleared":
                found.append(event)
            elif event.type in {"BlockStored", "BlockRemoved"}:
                one = (self._stored if event.type == "BlockStored" else self._removed).decode(raw)
                if one.medium in _DEVICE_TIERS and not one.group_idx:
                    found.append(one)
        return found


def tell(event: _Event | _Stored | _Removed, mirror: KvMirror) -> None:
    """Have a mirror follow one event."""
    if isinstance(event, _Stored):
        salt = _salt(event)
        if salt is not None:
            hashes: list[BlockHash] = event.block_hashes
            mirror.stored(hashes, event.parent_block_hash, pack(event.token_ids), salt)
    elif isinstance(event, _Removed):
        mirror.removed(event.block_hashes)
    else:
        mirror.cleared()


def _salt(event: _Stored) -> bytes | None:
    """Return what keeps these blocks apart from others with the same tokens; None if that is more than a salt.

    An adapter or an image is such a thing: plain prompts never find these blocks. A salt comes with the first block.
    """
    keys = event.extra_keys or []
    if event.lora_name is not None or event.lora_id is not None or any(keys[1:]):
        return None
    first = keys[0] if keys else None
    if not first:
        return b""
    if event.parent_block_hash is None and len(first) == 1 and isinstance(first[0], str):
        return first[0].encode()
    return None
