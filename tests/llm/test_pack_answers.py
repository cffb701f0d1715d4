"""Answers to packs, well and badly written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.llm.engine import Choice, Constraint, JsonSchema
from flightllm.llm.pack_answers import read_pack
from flightllm.llm.packs import codes_of, pack_answer

CODES = ["BCD", "FGH", "JKL"]


def read(text: str, constraint: Constraint = None) -> tuple[dict[int, str], bool]:
    """Return the answers by place, and whether the answer is whole."""
    reading = read_pack(text, CODES, [constraint] * len(CODES))
    return dict(reading.texts), reading.whole


def listed(*entries: tuple[str, object]) -> str:
    """Return an answer with entries, in which a code can come twice."""
    return "{" + ", ".join(f"{json.dumps(code)}: {json.dumps(answer)}" for code, answer in entries) + "}"


ALL = ("BCD", "b"), ("FGH", "f"), ("JKL", "j")
WHOLE = {0: "b", 1: "f", 2: "j"}


@pytest.mark.parametrize(
    "text",
    [
        listed(*ALL),
        listed(*ALL[::-1]),
        f"Here they are:\n```json\n{listed(*ALL)}\n```\nDone.",
        f'{{"answers": {listed(*ALL)}}}',
        '[{"BCD": "b"}, {"FGH": "f"}, {"JKL": "j"}]',
        '{"answers": [{"row": "BCD", "answer": "b"}, {"code": "FGH", "answer": "f"}, {"row": "JKL", "a": "j"}]}',
        listed(("bcd", "b"), ("Row FGH:", "f"), ("[JKL]", "j")),
        listed(*ALL, ("XYZ", "of no row"), ("BCD", "b")),
        f'Think: {{"XYZ": "the form"}} [1]. So {listed(*ALL)}',
        '{"BCD": "b"}\n{"FGH": "f"}\n{"JKL": "j"}',
        f'As in {{"BCD": "b"}}. So {listed(*ALL)}',
    ],
)
def test_forms(text: str) -> None:
    """Any order and some freedom in writing are right; rows that do not exist are left out."""
    assert read(text) == (WHOLE, True)


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        (listed(*ALL[:2]), {0: "b", 1: "f"}, True),
        (listed(*ALL, ("BCD", "other")), {1: "f", 2: "j"}, True),
        (f'As in {{"BCD": "draft"}}. So {listed(*ALL)}', {1: "f", 2: "j"}, True),
        (f'{listed(*ALL)} No: {{"BCD": "other", "FGH": "f', {1: "f", 2: "j"}, False),
        (listed(("BCD", ""), ("FGH", None), ("JKL", ["j"])), {}, True),
        ('{"1": "b", "2": "f", "3": "j"}', {}, False),
        ('["b", "f", "j"]', {}, False),
        (listed(*ALL)[:-4], {0: "b", 1: "f"}, False),
        ('{"BCD": 1, "FGH": 12', {0: "1"}, False),
        ('{"BCD": "He said "no" to it", "FGH": "f"}', {}, False),
        ('{"answers": {"BCD": "b", "FGH": "f"', {0: "b"}, False),
        ("I cannot do this.", {}, False),
        ("", {}, False),
        ("[" * 100_000, {}, False),
        ('{"BCD": NaN}', {}, False),
    ],
)
def test_faults(text: str, found: dict[int, str], whole: bool) -> None:
    """A row that is missing, answered twice, or empty has no answer; entries before a fault of the text count."""
    assert read(text) == (found, whole)


def test_values() -> None:
    """Numbers and booleans become texts; JSON stays JSON, also if it is written as a text."""
    assert read(listed(("BCD", 8), ("FGH", 0.5), ("JKL", True)), Choice(("8",)))[0] == {0: "8", 1: "0.5", 2: "true"}
    schema = JsonSchema('{"type":"object"}')
    assert read(listed(("BCD", {"a": [1]}), ("FGH", '{"a": 2}')), schema)[0] == {0: '{"a": [1]}', 1: '{"a": 2}'}


TEXTS = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=8)


@given(TEXTS, st.randoms(use_true_random=False), st.integers(0, 400))
def test_splitting(texts: list[str], random: object, cut: int) -> None:
    """In any order and cut anywhere, each answer that is found is the row's own; whole answers have all."""
    codes = codes_of(len(texts), texts)
    entries = [(code, text, None) for code, text in zip(codes, texts, strict=True)]
    random.shuffle(entries)  # type: ignore[attr-defined]
    whole = pack_answer(entries)
    assert dict(read_pack(whole, codes, [None] * len(codes)).texts) == dict(enumerate(texts))
    part = read_pack(whole[:cut], codes, [None] * len(codes))
    assert all(texts[place] == text for place, text in part.texts.items())


@given(st.lists(st.tuples(st.sampled_from([*CODES, "XXX"]), st.sampled_from("ab")), max_size=8))
def test_repeats_and_swaps(entries: list[tuple[str, str]]) -> None:
    """A row has an answer exactly if all entries of its code agree."""
    found, _ = read(listed(*entries))
    for place, code in enumerate(CODES):
        answers = {answer for other, answer in entries if other == code}
        assert ({found[place]} if place in found else None) == (answers if len(answers) == 1 else None)
