"""The average length of a question about a pair, and about one value: what a strategy costs depends on both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from flightllm.functions.call import AICall
from flightllm.llm.engine import Engine
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.exact import AskedPairs
from flightllm.operators.joins.mapped import FORESEEN, Mapper
from flightllm.operators.joins.values import Ints

_SAMPLE: Final = 8


@dataclass(frozen=True, slots=True)
class Lengths:
    """The average prompt tokens of a question about a pair of values, and of one about a property of a value."""

    pair: float
    value: float

    @classmethod
    def of(cls, asked: AskedPairs, candidates: Candidates, engine: Engine, *, alike: bool) -> "Lengths":
        """Return the lengths by a few values of both sides, which are evenly spread."""
        ai, count = asked.join.ai, len(asked.values.found)
        left, right = (_spread(side) for side in (candidates.left, candidates.right))
        pairs = [_tokens(ai, one, engine) for one in asked.tuples(left * count + right)]
        mapper = Mapper(asked.join, asked.values, asked.runtime, alike)
        questions = [mapper.question(FORESEEN.left, FORESEEN, side) for side in (0, 1)]
        values = [
            _tokens(question, asked.values.found[number], engine)
            for question, side in zip(questions, (left, right), strict=True)
            for number in side.tolist()
        ]
        return cls(sum(pairs) / len(pairs), sum(values) / len(values))


def _spread(numbers: Ints) -> Ints:
    return numbers[np.linspace(0, len(numbers) - 1, _SAMPLE).astype(np.int64)]


def _tokens(ai: AICall, values: Sequence[str | None], engine: Engine) -> int:
    fields = [(name, text) for name, text in zip(ai.fields, values, strict=True) if text is not None]
    return engine.count_tokens(ai.prompt(fields))
