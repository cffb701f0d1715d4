"""Hints that go with requests."""

import inspect
import json
import sys
from typing import Any

import pytest

from flightllm.kvcache.eviction.hint import REUSE_HINT, ReuseHint, read_hint


@pytest.mark.parametrize("ahead", [None, 0, 40])
def test_round_trip(ahead: int | None) -> None:
    """What is told is read."""
    hint = ReuseHint("site", "query", 3, ahead)
    assert read_hint(hint.extra_args()) == hint


@pytest.mark.parametrize(
    "text", [3, {"number": 3}, "", "[3]", "{", '{"number": "x", "ahead": 1.5}', "[" * 100_000, '{"site": [1]}']
)
def test_what_cannot_be_read(text: object) -> None:
    """Nothing is known where a client sends anything else."""
    assert read_hint({REUSE_HINT: text}) == ReuseHint()


@pytest.mark.parametrize("given", [None, {}, {"other": "3"}])
def test_no_hint(given: dict[str, Any] | None) -> None:
    """Nothing is known where none was sent."""
    assert read_hint(given) == ReuseHint()


def test_ahead_without_a_query() -> None:
    """What follows is known of a query's prompts alone: where none is named it counts as unknown."""
    assert read_hint({REUSE_HINT: json.dumps({"site": "site", "ahead": 40})}) == ReuseHint("site")
    assert read_hint({REUSE_HINT: json.dumps({"query": "", "ahead": 0})}) == ReuseHint()


def test_deep_in_a_stack() -> None:
    """Brackets that nest too deeply for what is left of the stack are no hint, and no error."""

    def read(depth: int) -> ReuseHint:
        return read(depth - 1) if depth else read_hint({REUSE_HINT: "[" * 512})

    used = len(inspect.stack())
    assert read(sys.getrecursionlimit() - used - 100) == ReuseHint()
