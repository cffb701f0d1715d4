"""The question which of some numbered records match, and the reading of its answer."""

from functools import partial
from typing import Any, Final

import pyarrow as pa

from flightllm.functions.base import Answer
from flightllm.functions.call import AICall
from flightllm.functions.schema import json_value
from flightllm.llm.engine import JsonSchema

FIELDS: Final = ("records", "record")
"""The fields of the question about one record; the list comes first, so that prompts share it as their start."""
BLOCK_FIELDS: Final = ("first_records", "second_records")
_ONE: Final = """\
A database must find all pairs of records for which a condition is true. Here is a list of numbered records, and one
other record. Find all numbered records for which the condition is true together with the other record.

The condition: {condition}"""
_ONE_REPLY: Final = """\
Answer with a JSON list of the numbers of all matching records, such as [2] or [1, 4, 5]. If no record of the list
matches, answer []."""
_BLOCK: Final = """\
A database must find all pairs of records for which a condition is true. Here are two lists of numbered records. Find
all pairs of a first record and a second record for which the condition is true.

The condition: {condition}"""
_BLOCK_REPLY: Final = """\
Answer with a JSON list of all matching pairs. A pair is the number of the first record, then that of the second one,
such as [[2, 1], [5, 3]]. If no pair matches, answer []."""
_LIST: Final = '{"type":"array","items":%s}'
_NUMBERS: Final = _LIST % '{"type":"integer"}'
_ENDS: Final = 16
_MOST_NUMBER: Final = 1 << 31
_ONE_TOKENS, _PAIR_TOKENS = 4, 8
"""The most tokens of a number, or of a pair of numbers, with the signs around it."""


def list_question(ai: AICall, records: int, beside: int | None) -> Answer:
    """Return the question about up to `records` listed records, and `beside` others; None: one other without a number.

    The answer has a list of the numbers of a listed record and of another record for each match.
    """
    condition = ai.instruction if ai.asked is None else ai.asked.question
    block = beside is not None
    question = (_BLOCK if block else _ONE).format(condition=condition)
    reply = _BLOCK_REPLY if block else _ONE_REPLY
    schema = _LIST % _NUMBERS if block else _NUMBERS
    tokens = _ENDS + (records * _ONE_TOKENS if beside is None else records * beside * _PAIR_TOKENS)
    pairs = pa.list_(pa.list_(pa.int64()))
    answer = Answer(f"{question}\n\n{reply}", pairs, partial(_read, block=block), JsonSchema(schema), tokens)
    return answer.in_parts(question, reply=reply)


def _read(text: str, *, block: bool) -> list[list[int]]:
    found = json_value(text)
    if not isinstance(found, list):
        raise ValueError(f"expected a JSON list; got {text[:80]!r}")  # noqa: TRY004 - as `Answer.parse` says
    pairs = found if block else [[one, 1] for one in found]
    if not all(_is_pair(pair) for pair in pairs):
        wanted = "pairs of numbers from 1 on" if block else "numbers from 1 on"
        raise ValueError(f"expected a list of {wanted}; got {text[:80]!r}")
    return pairs


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(one) is int and 0 < one < _MOST_NUMBER for one in value)
    )
