"""Hints that go with requests."""

from typing import Any

import pytest

from flightllm.kvcache.eviction.hint import REUSE_HINT, ReuseHint, read_hint


@pytest.mark.parametrize("ahead", [None, 0, 40])
def test_round_trip(ahead: int | None) -> None:
    """What is told is read."""
    hint = ReuseHint("site", "query", 3, ahead)
    assert read_hint(hint.extra_args()) == hint


@pytest.mark.parametrize("given", [None, {}, {REUSE_HINT: 3}, {REUSE_HINT: {"number": "x", "ahead": 1.5}}])
def test_what_cannot_be_read(given: dict[str, Any] | None) -> None:
    """Nothing is known where a client sends anything else."""
    assert read_hint(given) == ReuseHint()
