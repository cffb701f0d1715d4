"""Prompts in a line: neighbours share most, and what each takes follows from what is held."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.model.cost import Rates
from flightllm.router.fleet import Fleet
from flightllm.router.line import Line
from tests.routing import BLOCK, assign, fleet, prompt

TEXTS = st.lists(st.lists(st.integers(0, 1), max_size=6).map(lambda bits: [b for b in bits for _ in range(BLOCK)]))


def _shared(left: bytes, right: bytes) -> int:
    """Return the whole blocks that two prompts begin with in common, but for their last tokens."""
    size = 4 * BLOCK
    blocks = 0
    while blocks < (len(right) - 4) // size and left[: (blocks + 1) * size] == right[: (blocks + 1) * size]:
        blocks += 1
    return blocks * BLOCK


@settings(deadline=None)
@given(TEXTS)
def test_neighbours_share_as_much_as_in_sorted_order(texts: list[list[int]]) -> None:
    """What prompts share with the one before is told right, and comes to as much as if they were sorted."""
    line = Line.of(fleet(1), [prompt(key, [*text, 7]) for key, text in enumerate(texts)])
    assert sorted(one.key for one in line.prompts) == list(range(len(texts)))
    tokens = [one.tokens for one in line.prompts]
    assert line.shared.tolist()[1:] == [_shared(*pair) for pair in pairwise(tokens)]
    ordered = sorted(tokens)
    assert line.shared.sum() == sum(_shared(*pair) for pair in pairwise(ordered))


def test_an_order_that_is_good_stays() -> None:
    """Groups are not sorted: they stay in the order in which they came."""
    groups = [[9] * BLOCK, [1] * BLOCK, [5] * BLOCK]
    asked = [prompt(key, [*groups[key // 2], key, 0, 0, 0]) for key in range(6)]
    assert [one.key for one in Line.of(fleet(1), asked).prompts] == list(range(6))
    mixed = [asked[key] for key in (0, 2, 1, 4, 3, 5)]
    assert [one.key for one in Line.of(fleet(1), mixed).prompts] == list(range(6))


def test_what_replicas_hold() -> None:
    """All hold the instruction, one the film too."""
    made = fleet(2)
    instruction, film = [1] * BLOCK, [2] * BLOCK
    assign(made, prompt(0, [*instruction, 3]), 0)
    assign(made, prompt(1, [*instruction, *film, 3]), 1)
    line = Line.of(made, [prompt(2, [*instruction, *film, 4]), prompt(3, [9] * 5)])
    assert line.common.tolist() == [BLOCK, 0]
    assert line.held.tolist() == [2 * BLOCK, 0]
    assert line.holders[0] == {1}


def test_seconds_leave_out_what_is_shared() -> None:
    """A prompt takes what it does not share with the one before, more where it is cut off from that one."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.5, cached=0.25, completion=2.0))
    made.add(None)
    line = Line.of(made, [prompt(key, [1] * BLOCK + [key], answer_tokens=1) for key in range(2)])
    assert line.seconds(line.shared).tolist() == [1 + 2.5 + 2, 1 + 0.5 + 1 + 2]
    assert line.again(line.shared).tolist() == [0, 1]
