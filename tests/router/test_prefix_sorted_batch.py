"""In a sorted batch neighbours share most; the predicted seconds follow from shared and held prefixes."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flightllm.llm.cost import Rates
from flightllm.router.fleet import Fleet
from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from tests.routing import BLOCK, assign, fleet, prompt

TEXTS = st.lists(st.lists(st.integers(0, 1), max_size=6).map(lambda bits: [b for b in bits for _ in range(BLOCK)]))


def _shared(left: bytes, right: bytes) -> int:
    """Return the tokens of the whole blocks that two prompts share, without the last token of `right`."""
    size = 4 * BLOCK
    blocks = 0
    while blocks < (len(right) - 4) // size and left[: (blocks + 1) * size] == right[: (blocks + 1) * size]:
        blocks += 1
    return blocks * BLOCK


@given(TEXTS)
def test_neighbours_share_as_much_as_in_sorted_order(texts: list[list[int]]) -> None:
    """The shared tokens are right, and their sum is that of prompts in sorted order."""
    batch = PrefixSortedBatch.of(fleet(1), [prompt(key, [*text, 7]) for key, text in enumerate(texts)])
    assert sorted(one.key for one in batch.prompts) == list(range(len(texts)))
    tokens = [one.tokens for one in batch.prompts]
    assert batch.shared_tokens.tolist()[1:] == [_shared(*pair) for pair in pairwise(tokens)]
    ordered = sorted(tokens)
    assert batch.shared_tokens.sum() == sum(_shared(*pair) for pair in pairwise(ordered))


def test_an_order_that_is_good_stays() -> None:
    """Groups keep the order of their first prompts."""
    groups = [[9] * BLOCK, [1] * BLOCK, [5] * BLOCK]
    asked = [prompt(key, [*groups[key // 2], key, 0, 0, 0]) for key in range(6)]
    assert [one.key for one in PrefixSortedBatch.of(fleet(1), asked).prompts] == list(range(6))
    mixed = [asked[key] for key in (0, 2, 1, 4, 3, 5)]
    assert [one.key for one in PrefixSortedBatch.of(fleet(1), mixed).prompts] == list(range(6))


def test_what_replicas_hold() -> None:
    """Both replicas hold the instruction; only one holds the film too."""
    made = fleet(2)
    instruction, film = [1] * BLOCK, [2] * BLOCK
    assign(made, prompt(0, [*instruction, 3]), 0)
    assign(made, prompt(1, [*instruction, *film, 3]), 1)
    batch = PrefixSortedBatch.of(made, [prompt(2, [*instruction, *film, 4]), prompt(3, [9] * 5)])
    assert batch.common_tokens.tolist() == [BLOCK, 0]
    assert batch.held_tokens.tolist() == [2 * BLOCK, 0]
    assert batch.holders[0] == {1}


def test_seconds_leave_out_what_is_shared() -> None:
    """Shared tokens save seconds; a prompt without its predecessor costs these seconds extra."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.5, cached=0.25, completion=2.0))
    made.add(None)
    batch = PrefixSortedBatch.of(made, [prompt(key, [1] * BLOCK + [key], answer_tokens=1) for key in range(2)])
    assert batch.seconds(batch.shared_tokens).tolist() == [1 + 2.5 + 2, 1 + 0.5 + 1 + 2]
    assert batch.extra_seconds(batch.shared_tokens).tolist() == [0, 1]


def test_the_example_of_the_class() -> None:
    """The table in the docstring of `PrefixSortedBatch` holds."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.5, cached=0.25, completion=2.0))
    made.add(None)
    made.add(None)
    assign(made, prompt(0, [1] * BLOCK), 1)
    arrived = [[1] * 4 + [2] * 4 + [3], [9] * 9, [1] * 4 + [2] * 4 + [4]]
    batch = PrefixSortedBatch.of(made, [prompt(key + 1, tokens, 1) for key, tokens in enumerate(arrived)])
    assert [one.key for one in batch.prompts] == [1, 3, 2]
    assert batch.shared_tokens.tolist() == [0, 8, 0]
    assert batch.common_tokens.tolist() == [0, 0, 0]
    assert batch.held_tokens.tolist() == [4, 4, 0]
    assert [set(one) for one in batch.holders] == [{1}, {1}, {0, 1}]
    assert batch.seconds(batch.shared_tokens).tolist() == [7.5, 5.5, 7.5]
    assert batch.extra_seconds(batch.shared_tokens).tolist() == [0, 2, 0]


def test_the_example_of_shared_among() -> None:
    """Prompts share the least of what the neighbours between them share."""
    texts = [[1] * 4 + [2] * 4 + [3], [1] * 4 + [2] * 4 + [4], [1] * 4 + [5] * 5, [1] * 4 + [5] * 4 + [6]]
    batch = PrefixSortedBatch.of(fleet(1), [prompt(key, tokens) for key, tokens in enumerate(texts)])
    assert batch.shared_tokens.tolist() == [0, 8, 4, 8]
    assert batch.shared_among(np.array([0, 2, 3])).tolist() == [0, 4, 8]
