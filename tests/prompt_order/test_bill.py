"""What a layout costs, by hand and by counting every prompt of small tables."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.bill import CacheCharges, CallPrompt, bill
from flightllm.prompt_order.ordering import encode

NEW = CacheCharges(1_024, 1, 0.1, 1.25, marked=True)
OLD = CacheCharges(1_024, 128)


def table(*columns: list[str | None]) -> Encoded:
    """Return the tuples of columns; each character is 100 tokens, and no field has a name."""
    given = [pa.chunked_array([pa.array(column, pa.large_string())]) for column in columns]
    return encode(given, [""] * len(columns), [1] * len(columns), 0.01)[0]


@pytest.mark.parametrize(
    ("charges", "wanted"),
    [
        (NEW, 1.25 * 2_010 + 0.1 * 2_010 + 2_010 + 300),
        (OLD, 2_010 + 0.1 * 1_920 + 90 + 2_010 + 300),
        (CacheCharges(4_096), 3 * 2_010 + 300),
        (CacheCharges(1_024, 1, 0.1, 2.0, marked=True, pays_from=3), 3 * 2_010 + 300),
    ],
    ids=["marks", "steps", "below the floor", "dear write"],
)
def test_by_hand(charges: CacheCharges, wanted: float) -> None:
    """A field that two of three prompts share."""
    encoded = table(["a" * 20, "a" * 20, "b" * 20], ["1", "2", "3"])
    assert bill(encoded, [CallPrompt((0, 1), 0, 10.0, 0.0)], charges) == pytest.approx(wanted)


def test_calls_share_fields_that_come_first() -> None:
    """With the fields first, the second of two calls reads the long field; with the instruction first, it does not."""
    encoded = table(["a" * 20, "b" * 20])
    instruction = [CallPrompt((0,), call, 50.0, 0.0) for call in range(2)]
    fields = [CallPrompt((0,), 0, 0.0, 50.0) for _ in range(2)]
    assert bill(encoded, instruction, NEW) == pytest.approx(4 * 2_050)
    assert bill(encoded, fields, NEW) == pytest.approx(2 * (1.25 + 0.1) * 2_000 + 4 * 50)


def test_null() -> None:
    """A NULL field is not in the prompt; a tuple of NULLs has no prompt."""
    encoded = table(["a" * 20, None, None], [None, "b", None])
    assert bill(encoded, [CallPrompt((0, 1), 0, 10.0, 5.0)], NEW) == pytest.approx(2_000 + 100 + 2 * 15)
    assert bill(encoded, [], NEW) == 0.0


def counted(rows: list[tuple[str, ...]], head: int, charges: CacheCharges) -> float:
    """Return the bill of sorted prompts, each with marks at the ends that two of them share; one character a token."""
    prompts = ["h" * head + "".join(row) for row in sorted(rows)]
    ends = [[head + sum(map(len, row[:count])) for count in range(len(row) + 1)] for row in sorted(rows)]
    stored: set[str] = set()
    total = 0.0
    for prompt, own in zip(prompts, ends, strict=True):
        starts = [prompt[:end] for end in own if end >= charges.floor]
        marks = [
            one for one in starts if sum(one in {p[:e] for e in x} for p, x in zip(prompts, ends, strict=True)) > 1
        ]
        found = max((len(one) for one in marks if one in stored), default=0)
        new = max(map(len, marks), default=0) - found
        total += len(prompt) - found - new + charges.read * found + charges.write * new
        stored.update(marks)
    return total


@pytest.mark.parametrize("seed", range(12))
def test_as_counted(seed: int) -> None:
    """The bill of random small tables is that of their prompts, one after the other."""
    rng = np.random.default_rng(seed)
    values = ["a" * 5, "b" * 9, "c" * 30]
    rows = [tuple(row) for row in rng.permutation(list(product(values, repeat=3)))[: int(rng.integers(2, 20))].tolist()]
    charges = CacheCharges(int(rng.integers(1, 40)), 1, 0.1, 1.25, marked=True)
    columns = [pa.chunked_array([pa.array(list(column), pa.large_string())]) for column in zip(*rows, strict=True)]
    encoded, _ = encode(columns, [""] * 3, [1] * 3, 1.0)
    head = int(rng.integers(0, 30))
    found = bill(encoded, [CallPrompt((0, 1, 2), 0, head, 0.0)], charges)
    assert found == pytest.approx(counted(rows, head, charges))
