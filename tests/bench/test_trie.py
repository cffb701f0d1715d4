"""The least tokens to compute: each bound beside a naive count, and beside what a cache computes."""

from collections.abc import Sequence
from contextlib import closing
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from bench.engines import least_tokens
from bench.ordering import any_field_order, prompts, solve, unlimited
from bench.trie import Line, Parts, fields_begin, least, least_of_any_field_order, line, nodes, parts
from flightllm.common.package_data import demo_model
from flightllm.common.text import shared_start
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.llm.engine import Parameters, Request
from flightllm.llm.prompt_formats import FORMATS, PLAIN, PromptFormat
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
    lines = [Line((10, 11), 1), Line((20, 21), 1)]
    whole = [1, 2, 10, 11, 4, 20, 21, 4, 9, 9]
    assert parts(whole, lines, 2) == parts(whole, lines, 1) == Parts((1, 2), ((10, 11), (20, 21)), (9, 9))
    assert parts([1, 2, 3], lines[:1], 0) is None
    assert parts([1, 2], [], 2) == Parts((1, 2), (), ())


def test_a_prompt_is_divided_behind_a_line_in_its_instruction() -> None:
    """Lines before the fields, or behind them, stay in the texts around them."""
    lines = [Line((10, 11), 1), Line((20, 21), 1)]
    whole = [1, 10, 11, 4, 2, 2, 2, 10, 11, 4, 20, 21, 4, 10, 11]
    assert parts(whole, lines, 7) == Parts((1, 10, 11, 4, 2, 2, 2), ((10, 11), (20, 21)), (10, 11))
    assert parts(whole, lines, 0) is None  # a line follows, but not the next one


@pytest.mark.parametrize(
    ("prompt", "lines", "place"),
    [
        ("Is it good?\n\ntitle: A\nmark: 3\nAnswer:", ["title: A\n", "mark: 3\n"], 13),
        ("Like title: A\n?\n\ntitle: A\nmark: 3\nAnswer:", ["title: A\n", "mark: 3\n"], 17),
        ("title: A\n\nIs it good?\nAnswer:", ["title: A\n"], 0),
        ("Like title: A?\n\ntitle: A\nAnswer:", ["title: A\n"], None),
        ("Is it good?\n\n<title>\nA\n</title>\nAnswer:", ["title: A\n"], None),
        ("Is it good?", [], 11),
    ],
)
def test_the_fields_begin_where_all_their_lines_are(prompt: str, lines: list[str], place: int | None) -> None:
    """A text that is there twice, or not at all, has no place."""
    assert fields_begin(prompt, lines) == place


def test_an_instruction_with_a_line_of_a_field_does_not_raise_the_bound() -> None:
    """The bound of each engine's prompts is not above their trie; a prompt whose only field is quoted is left out."""
    titles = [f"A film with the long name number {number}" for number in range(6)]
    instruction = "\n".join(["Which of these films is the record about?", *(f"title: {title}" for title in titles)])
    rows = [[("title", title), ("text", f"What it is about: {number}")] for number, title in enumerate([*titles, "X"])]
    single = [[("title", titles[0])], [("title", "X")]]
    with closing(FakeEngine("fake", 4, FakeOptions())) as engine:
        found = least_tokens(engine, requests(instruction, rows))
        assert 0 < found["any_order_tokens"] <= found["least_tokens"]
        assert found["undivided_prompts"] == 0
        assert least_tokens(engine, requests(instruction, single))["undivided_prompts"] == 1


@pytest.mark.parametrize("style", FORMATS.values(), ids=FORMATS)
def test_prompts_of_every_format_are_divided(style: PromptFormat) -> None:
    """Fields are found as lines and between tags, with the instruction first or the fields."""
    rows = [
        [("title", title), ("text", f"What {title} is about.\nMore.")] for title in ("A film", "Another", "A third")
    ]
    for fields_first in (False, True):
        asked = requests("Is it good?", rows, style, fields_first=fields_first)
        with closing(FakeEngine("fake", 4, FakeOptions())) as engine:
            found = least_tokens(engine, asked)
        assert found["undivided_prompts"] == 0
        assert 0 < found["any_order_tokens"] <= found["least_tokens"]


def requests(
    instruction: str,
    rows: Sequence[Sequence[tuple[str, str]]],
    style: PromptFormat = PLAIN,
    *,
    fields_first: bool = False,
) -> list[Request]:
    """Return a request for each row."""
    prompts = [style.render(instruction, None, row, fields_first=fields_first) for row in rows]
    return [
        Request(number, prompt, Parameters(), "ai_gen", instruction, tuple(row))
        for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True))
    ]


@pytest.mark.parametrize("value", ["a film", "It is good!", "wait...", "1", "", "two\n  lines."])
def test_steady_tokens_stand_in_every_order(value: str) -> None:
    """The tokens of a line are in the prompt wherever the line stands."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(demo_model() / "tokenizer.json"))
    others = ["title: A film\n", "mark: 3/5!\n"]
    texts = [f"text: {value}\n", *others]
    lines = {text: line(text, lambda one: tokenizer.encode(one, add_special_tokens=False).ids) for text in texts}
    head = "What is it?\n\n"
    for order in permutations(texts):
        ids = tokenizer.encode(f"{head}{''.join(order)}Answer:").ids
        found = parts(ids, [lines[text] for text in order], shared_start(tokenizer.encode(head).ids, ids))
        assert found is not None
        assert tokenizer.decode(found.head) == head


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
