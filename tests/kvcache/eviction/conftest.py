"""Fixtures of the tests of eviction."""

from typing import Any

import pytest

from flightllm.kvcache.eviction.free_blocks import FreeBlocks


@pytest.fixture
def evicted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each block that the policy of a queue evicts."""
    blocks, evict = list[object](), FreeBlocks._evict

    def counted(queue: FreeBlocks[Any], now: float) -> object:
        blocks.append(evict(queue, now))
        return blocks[-1]

    monkeypatch.setattr(FreeBlocks, "_evict", counted)
    return blocks
