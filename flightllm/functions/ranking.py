"""The questions of functions that put values into an order: about one value, about two, and about several."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.answers import choice_answer, json_answer, number_answer
from flightllm.functions.base import Answer, SetAnswer, SetQuestion
from flightllm.functions.confidence import expected_number
from flightllm.functions.guidance import reference

RANKED: Final = "rank"
"""The reading of answers that are places in an order, a smaller number first."""
RANK_METHOD: Final = "rank"
"""The method of a call that ranks the values of a set by comparing them."""
COMPARE_METHOD: Final = "compare"
"""The method of a call that compares two values in both orders."""
PAIR: Final = "pair"
WINDOW: Final = "window"
"""The names of the questions about two records, and about several."""
FIRST, SECOND, TIE = "first", "second", "tie"
RECORDS: Final = "records"
"""The name of the text with all records of a window."""
MOST: Final = 100.0
"""The number of a record that fits a criterion best. Its place is 0."""
PAIR_WINDOW: Final = 2
"""The records in a prompt of the pairwise method."""


def pointwise(criterion: str, *, expected: bool) -> Answer:
    """Ask about one record for a number from 0 to 100; the answer is 100 minus this number, so that 0 ranks first.

    With `expected`, the number is the expected value of the model's numbers where their probabilities are known.
    """
    scale = "Answer with a number from 0 (ranks last) to 100 (ranks first)."
    asked = number_answer(f"Records are ranked by this criterion: {criterion}\n\n{scale}", 0, MOST).in_parts(
        f"Records are ranked by this criterion: {criterion}\n\nWhere does the record rank?",
        task="Rate how early the record ranks.",
        reply=scale,
    )
    found = expected_number(asked) if expected else asked

    def parse(text: str) -> float:
        return MOST - float(found.parse(text))

    return replace(found, parse=parse, reading=f"{found.reading} {RANKED}".strip())


def over_set(criterion: str, fields: Sequence[str], window: int, top: int | None) -> Answer:
    """Compare records with one another, at most `window` in a prompt; the answer is the rank of a record, from 1 on.

    With `top`, records after the first `top` share the next rank.
    """
    if len(fields) == 1:  # a record with one field has no line with its name
        criterion = criterion.replace(reference(fields[0]), "the record")
    questions = {PAIR: SetQuestion(_pair(criterion), (FIRST, SECOND))}
    if window > PAIR_WINDOW:
        questions[WINDOW] = SetQuestion(_window(criterion), (RECORDS,))
    over = SetAnswer(RANK_METHOD, questions, (("fields", tuple(fields)), ("window", window), ("top", top)))
    return Answer(criterion, pa.float64(), float, over=over)


def comparison(question: str, first: str, second: str) -> Answer:
    """Ask which of two fields fits a question better; `first` and `second` are the fields' names."""
    told = f"The first value is {reference(first)}, and the second value is {reference(second)}."
    reply = f"Answer with one word: {FIRST}, {SECOND}, or {TIE} if neither fits better."
    answer = choice_answer(f"{question}\n\n{told} {reply}", (FIRST, SECOND, TIE))
    return answer.in_parts(question, task=f"Compare two values. {told}", reply=reply)


def in_both_orders(question: str, fields: Sequence[str]) -> Answer:
    """Ask which of two values fits a question better, in both orders; two different answers are a tie.

    Raises:
        AICallError: the question refers to values other than these two.
    """
    if len(fields) > PAIR_WINDOW:
        raise AICallError(
            "both_orders => true needs a question without further values: write a constant such as"
            " 'which is more urgent?', or leave out both_orders => true"
        )
    for name, role in zip(fields, (FIRST, SECOND), strict=True):
        question = question.replace(reference(name), f"the {role} value")
    asked = SetQuestion(comparison(question, FIRST, SECOND), (FIRST, SECOND))
    return Answer(question, pa.string(), str, over=SetAnswer(COMPARE_METHOD, {PAIR: asked}, whole=False))


def _pair(criterion: str) -> Answer:
    question = f"Records are ranked by this criterion: {criterion}\n\nWhich of the two records ranks before the other?"
    reply = f"Answer with one word: {FIRST} or {SECOND}."
    answer = choice_answer(f"{question} {reply}", (FIRST, SECOND))
    return answer.in_parts(question, task="Compare two records.", reply=reply)


def _window(criterion: str) -> Answer:
    schema = {
        "type": "object",
        "properties": {"order": {"type": "array", "items": {"type": "integer"}}},
        "required": ["order"],
    }
    question = f"Rank the numbered records by this criterion: {criterion}"
    told = 'List the numbers of all records in "order", from the record that ranks first to the one that ranks last.'
    asked = json_answer(f"{question}\n\n{told}", json.dumps(schema)).in_parts(
        f"{question}\n\n{told}", task="Rank records."
    )
    inner = asked.parse

    def parse(text: str) -> list[int]:
        order: list[Any] = inner(text)["order"]
        return order

    return replace(asked, output=pa.list_(pa.int64()), parse=parse)
