"""Lists whose elements may stand in any order: nothing is lost, and what rows have in common comes first."""

import numpy as np
import pyarrow as pa
import pytest

from flightllm.prompt_order.base import REORDERING, CacheShape, Encoded, Method, Ordering
from flightllm.prompt_order.ordering import encode, order

ROWS = 300
FREE = CacheShape(1, None, 0.0)


def contexts(rows: int = ROWS, seed: int = 0) -> list[pa.ChunkedArray]:
    """Return a question per row and three of 40 contexts, some NULL, some twice."""
    rng = np.random.default_rng(seed)
    texts = [f"context {i} " * 10 for i in range(40)]
    questions = [f"question {i}" for i in range(rows)]
    picked = rng.integers(40, size=(rows, 3))
    columns = [[texts[i] if rng.random() > 0.1 else None for i in picked[:, place]] for place in range(3)]
    return [pa.chunked_array([column]) for column in (questions, *columns)]


def encoded(columns: list[pa.ChunkedArray], *, free: bool) -> Encoded:
    """Encode them, the contexts as a list or as fields."""
    names = ["question", *["context"] * 3]
    made, _ = encode(columns, names, [1] * 4, 4.0, [(1, 2, 3)] if free else [])
    return made


@pytest.mark.parametrize("method", ["none", "rows", "fixed", "greedy", "auto"])
@pytest.mark.parametrize("window", [1, 8])
def test_every_row_keeps_its_fields(method: Method, window: int) -> None:
    """Each row's order is a permutation of its own fields, NULLs last where the fields are ordered."""
    made = encoded(contexts(), free=True)
    ordering: Ordering = order(made, method, FREE, window)
    assert sorted(ordering.rows.tolist()) == list(range(ROWS))
    for row, pattern in zip(ordering.rows, ordering.pattern, strict=True):
        fields = ordering.patterns[pattern]
        assert sorted(fields) == [0, 1, 2, 3]
        if method in REORDERING:
            there = [made.codes[row, field] >= 0 for field in fields]
            assert there == sorted(there, reverse=True)


def hits(made: Encoded, ordering: Ordering) -> float:
    """Return the share of tokens that the prompt before has begun with: of equal texts, whatever their columns."""
    dictionary = [np.arange(len(weights)) for weights in made.weights]
    found = total = 0.0
    before: list[tuple[str, int]] = []
    for row, pattern in zip(ordering.rows, ordering.pattern, strict=True):
        now = [
            ("q" if field == 0 else "c", int(dictionary[field][made.codes[row, field]]))
            for field in ordering.patterns[pattern]
            if made.codes[row, field] >= 0
        ]
        weights = [made.weights[0 if kind == "q" else 1][code] for kind, code in now]
        equal = [a == b for a, b in zip(now, before, strict=False)]
        found += sum(weights[: [*equal, False].index(False)])
        total += sum(weights)
        before = now
    return found / total


def test_lists_share_more_than_fields() -> None:
    """Free elements are served more often than fields in fixed places, as predicted."""
    columns = contexts()
    free, fixed = encoded(columns, free=True), encoded(columns, free=False)
    best, before = order(free, "greedy", FREE), order(fixed, "greedy", FREE)
    assert hits(free, best) > 1.1 * before.hit_tokens / before.total_tokens
    assert best.hit_tokens / best.total_tokens >= hits(free, best)


def test_elements_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all common elements find room, the heaviest do, and the others stay fields."""
    made = encoded(contexts(), free=True)
    whole = order(made, "greedy", FREE)
    monkeypatch.setattr("flightllm.prompt_order.lists._CELLS", ROWS * 9)
    some = order(made, "greedy", FREE)
    assert 0 < hits(made, some) < hits(made, whole)
