"""Decode vLLM's KV events, which report the blocks that its prefix cache stores and evicts.

Events come in batches. A batch is a MessagePack list: the time, the events, and the rank of a data-parallel engine. An
event is a map with its kind as `type`. Other versions of vLLM have more fields and kinds; these are ignored.
"""

from __future__ import annotations

from typing import Any

from flightllm.errors import MissingExtraError
from flightllm.router.mirror import BlockHash, KvMirror
from flightllm.router.tree import pack

try:
    import msgspec
except ImportError as exc:
    raise MissingExtraError("the KV events of an engine", "cluster") from exc

_DEVICE_TIERS = ("GPU", None)
"""vLLM's names for the tier that serves prompts. A CPU engine uses these names too, because the tier `CPU` means
offloaded blocks."""


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
    """A decoder of batches of events. One thread at a time."""

    def __init__(self) -> None:
        self._batch = msgspec.msgpack.Decoder(_Batch)
        self._kind = msgspec.msgpack.Decoder(_Event)
        self._stored = msgspec.msgpack.Decoder(_Stored)
        self._removed = msgspec.msgpack.Decoder(_Removed)

    def read(self, payload: bytes) -> list[_Event | _Stored | _Removed]:
        """Return the relevant events of a batch, in order; a plain `_Event` says that the cache was cleared.

        Raises:
            ValueError: the payload is not a batch, or an event of a known kind lacks a field.
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
    """Apply one event to a mirror."""
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
    """Return the cache salt of stored blocks; None if more than a salt separates them from blocks of equal tokens.

    An adapter or an image separates blocks in this way: plain prompts never match these blocks. The first block
    carries the salt.
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
