"""The least tokens to compute: each bound beside a naive count, and beside what a cache computes."""

from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from bench.ordering import any_field_order, prompts, solve, unlimited
from bench.trie import Line, Parts, least, least_of_any_field_order, line, nodes, parts
from flightllm.common.package_data import demo_model
from flightllm.prompt_order.base import CacheShape, Method


def naive(sequences: list[tuple[int, ...]]) -> int:
    """Return the number of distinct starts, one by one."""
    return len({one[:end] for one in sequences for end in range(1, len(one) + 1)})


def drawn(seed: int) -> list[tuple[int, ...]]:
    """Return sequences of few kinds of items, so that many starts are shared."""
    chance = np.random.default_rng(seed)
    return [tuple(chance.integers(3, size=length).tolist()) for length in chance.integers(9, size=30)]


@pytest.mark.parametrize("seed", range(20))
def test_nodes_are_the_distinct_starts(seed: int) -> None:
    """The count from neighbours in sorted order is the size of the set of all starts."""
    assert nodes(drawn(seed)) == least(drawn(seed)) == naive(drawn(seed))


@pytest.mark.parametrize("block", [1, 2, 3, 16])
@pytest.mark.parametrize("seed", range(5))
def test_blocks_are_the_distinct_starts_of_whole_blocks(seed: int, block: int) -> None:
    """A cache of whole blocks that evicts nothing computes exactly the bound, in every order of the prompts."""
    distinct = sorted(set(drawn(seed)))
    sequences = [distinct[place] for place in np.random.default_rng(seed).permutation(len(distinct))]
    cached: set[tuple[int, ...]] = set()
    computed = 0
    for one in sequences:
        ends = range(block, len(one) + 1, block)
        computed += len(one) - block * sum(one[:end] in cached for end in ends)
        cached.update(one[:end] for end in ends)
    assert least(sequences, block) == computed >= least(sequences)


def test_a_block_has_at_least_one_token() -> None:
    """The error says what was given."""
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        least([(1, 2)], 0)


def test_no_prompts_need_no_tokens() -> None:
    """Nothing is computed where nothing is sent."""
    assert nodes([]) == least([], 16) == least_of_any_field_order([]) == 0


def test_no_field_order_needs_less_than_the_bound() -> None:
    """All field orders of each of three rows are tried; the best trie is not smaller than the bound."""
    rows = [((10, 1), (20, 1, 2), (30, 5)), ((10, 1), (20, 1, 3), (30, 6)), ((10, 2), (20, 1, 2), (30, 6))]
    head, tail = (7, 8), (9,)
    best = min(
        nodes([head + sum(order, ()) + tail for order in orders])
        for orders in product(*(list(permutations(row)) for row in rows))
    )
    bound = least_of_any_field_order([Parts(head, row, tail) for row in rows])
    # head 2; lines: 10, 10 1, 10 2, 20, 20 1, 20 1 2, 20 1 3, 30, 30 5, 30 6; a tail for each row
    assert bound == 2 + 10 + 3 <= best


def test_calls_over_the_same_fields_share_them_only_behind_one_head() -> None:
    """Two calls with their instructions first compute the fields twice; with the fields first, once."""
    lines, left, right = ((10, 1), (20, 2)), (1, 5), (1, 6)
    assert least_of_any_field_order([Parts(left, lines, (9,)), Parts(right, lines, (9,))]) == 3 + 4 + 4 + 2
    assert least_of_any_field_order([Parts((), lines, left), Parts((), lines, right)]) == 0 + 4 + 3


def test_a_prompt_is_divided_at_its_lines() -> None:
    """Before, in and behind the fields; a token that can belong to a line's end is in neither part."""
    found = parts([1, 2, 10, 11, 4, 20, 21, 4, 9, 9], [Line((10, 11), 1), Line((20, 21), 1)])
    assert found == Parts((1, 2), ((10, 11), (20, 21)), (9, 9))
    assert parts([1, 2, 3], [Line((10, 11), 1)]) is None


@pytest.mark.parametrize("value", ["a film", "It is good!", "wait...", "1", "", "two\n  lines."])
def test_steady_tokens_stand_in_every_order(value: str) -> None:
    """The tokens of a line are in the prompt wherever the line stands."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(demo_model() / "tokenizer.json"))
    others = ["title: A film\n", "mark: 3/5!\n"]
    found = line(f"text: {value}\n", lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
    for order in permutations([f"text: {value}\n", *others]):
        ids = tokenizer.encode(f"What is it?\n\n{''.join(order)}Answer:").ids
        assert parts(ids, [found]) is not None


@pytest.mark.parametrize("method", ["none", "fixed", "greedy"])
def test_orderings_stay_above_the_bounds(method: Method) -> None:
    """The characters that an unlimited cache computes are the trie's, and not below the bound of all field orders."""
    chance = np.random.default_rng(0)
    table = pa.table({
        name: [f"{name} {number} " + "x" * (number % 2) for number in chance.integers(few, size=60)]
        for name, few in (("a", 3), ("b", 12), ("c", 60))
    })  # fmt: skip
    found = solve(table, method, CacheShape(block_tokens=1), names=True)
    texts = prompts(table, *found, names=True)
    computed = sum(map(len, texts)) - unlimited(texts)
    trie = naive([tuple(map(ord, text)) for text in texts])
    repeated = sum(map(len, texts)) - sum(map(len, set(texts)))
    assert any_field_order(table) <= trie == computed
    assert repeated <= unlimited(texts)
