"""Let the model find a property that decides the pairs, and then ask for the property of each value once.

One question shows the model the condition and some values of both sides. It answers with a question about each side, a
list of labels, and whether matching values have the same label or different ones.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flightllm.common.text import well_formed
from flightllm.functions.answers import choice_answer, json_answer
from flightllm.functions.base import Answer
from flightllm.functions.call import AICall
from flightllm.operators.joins.asked import answered, asking
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.classes import ACCEPT, ASK, REJECT, Classes
from flightllm.operators.joins.values import Ints, Value, Values
from flightllm.operators.runtime import Runtime
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.known_answers import known_answers
from flightllm.plan.stages import PairJoin

_SHOWN: Final = 12
_MOST_CHARACTERS: Final = 400
_MOST_LABELS: Final = 200
_LONGEST_LABEL: Final = 100
_ASKED: Final = """\
A database must find all pairs of a left record and a right record for which a condition is true. To ask about each pair
costs too much. Say whether one property of each single record decides the condition.

If so, write one question about a left record and one about a right record, with the same list of short labels as their
possible answers. The labels must cover all records. Say in `relation` whether the condition is true for records with
the same label or for records with different labels. Put into `unmatched` the labels whose records match no record. If
both sides have the same kind of record, write the same question for both. If no property decides the condition, set
`possible` to false."""
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "possible": {"type": "boolean"},
        "left_question": {"type": "string"},
        "right_question": {"type": "string"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "relation": {"type": "string", "enum": ["same", "different"]},
        "unmatched": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["possible", "left_question", "right_question", "labels", "relation", "unmatched"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Property:
    """A property that decides the pairs: a question for each side, the labels, and which labels match."""

    left: str
    right: str
    labels: tuple[str, ...]
    same: bool
    unmatched: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the property in words."""
        labels = ", ".join(self.labels)
        relation = "values with the same label" if self.same else "values with different labels"
        both = f"'{self.left}'" if self.left == self.right else f"'{self.left}' and '{self.right}'"
        return f"{both} with the labels {labels}; {relation} match"


FORESEEN: Final = Property("What is it?", "What is it?", ("first", "second"), same=True)
"""The property that a dry run asks for: its prompts are about as long as those of the property that a model finds."""


@dataclass(frozen=True, slots=True)
class Mapper:
    """Asks for a property, and for the labels of values."""

    join: PairJoin
    values: Values
    runtime: Runtime
    alike: bool
    """Whether both sides have the same number of fields."""

    def find(self, candidates: Candidates, *, foreseen: bool) -> tuple[Property | None, str]:
        """Return the property that the model proposes, or None and the reason.

        A dry run is `foreseen`: it returns `FORESEEN` unless the answer cache has the proposal.

        Raises:
            EngineError: the engine is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        ai = self.join.ai
        call = asking(ai, json_answer(_ASKED, _SCHEMA), ("condition", "left_records", "right_records"))
        call = replace(call, output=pa.string(), parse=_as_text, reading="join")
        sides = [self._shown(side, numbers) for side, numbers in enumerate((candidates.left, candidates.right))]
        counters = self.runtime.proxy_counters(self.join.name, call, ai.binding)
        prompt = ai.instruction, *sides
        known = known_answers(Asker(call, self.runtime, counters), call, [prompt]) if foreseen else []
        found = [answer for _, answer in answered(call, [prompt], self.runtime, counters)]
        if foreseen:
            return (FORESEEN, "") if known == [None] else read_property(known[0])
        if not found or not isinstance(found[0], str):
            return None, "the model proposed no property, because its answer failed"
        return read_property(found[0])

    def classes(self, found: Property, candidates: Candidates) -> Classes:
        """Ask for the label of each value; values without a label have a class of their own, and are asked in pairs.

        Raises:
            EngineError: the engine is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        count, unknown = len(self.values.found), len(found.labels)
        left, right = np.full(count, unknown), np.full(count, unknown)
        if self.alike and found.left == found.right:
            every = np.union1d(candidates.left, candidates.right)
            left[every] = right[every] = self._labels(found.left, found, every, 0)
        else:
            left[candidates.left] = self._labels(found.left, found, candidates.left, 0)
            right[candidates.right] = self._labels(found.right, found, candidates.right, 1)
        verdict = np.full((unknown + 1, unknown + 1), ASK, np.int8)
        for a, one in enumerate(found.labels):
            for b, other in enumerate(found.labels):
                matches = (a == b) == found.same and not {one, other} & found.unmatched
                verdict[a, b] = ACCEPT if matches else REJECT
        return Classes(left, right, verdict)

    def question(self, question: str, found: Property, side: int) -> AICall:
        """Return the call that asks for the label of a value of a side."""
        return asking(self.join.ai, _label_answer(question, found.labels), self._names(side))

    def _labels(self, question: str, found: Property, numbers: Ints, side: int) -> Ints:
        ai, call = self.join.ai, self.question(question, found, side)
        counters = self.runtime.proxy_counters(self.join.name, call, ai.binding)
        values: list[Value] = [self.values.found[number] for number in numbers.tolist()]
        result = np.full(len(numbers), len(found.labels))
        for place, label in answered(call, values, self.runtime, counters):
            if isinstance(label, str):
                result[place] = found.labels.index(label)
        return result

    def _names(self, side: int) -> tuple[str, ...]:
        """Return the names of a side's fields, in the order of its values."""
        own = sorted((at, f) for f, (is_left, at) in enumerate(self.join.places) if is_left == (side == 0))
        return tuple(self.join.ai.fields[f] for _, f in own)

    def _shown(self, side: int, numbers: Ints) -> str:
        """Return the number of a side's values, and some of them."""
        some = numbers[np.linspace(0, len(numbers) - 1, min(_SHOWN, len(numbers))).astype(np.int64)]
        names = self._names(side)
        records = [
            {name: (text or "")[:_MOST_CHARACTERS] for name, text in zip(names, self.values.found[n], strict=True)}
            for n in some.tolist()
        ]
        return f"{len(numbers):,} different records, such as {json.dumps(records, ensure_ascii=False)}"


def _label_answer(question: str, labels: Sequence[str]) -> Answer:
    instruction = f"{question}\n\nAnswer with one of these labels: {', '.join(labels)}"
    reply = f"Answer with one of these labels: {', '.join(labels)}"
    return choice_answer(instruction, labels).in_parts(question, task="Classify the record.", reply=reply)


def _as_text(text: str) -> str:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - as `Answer.parse` says
    return json.dumps(value)


def read_property(text: str) -> tuple[Property | None, str]:
    """Return the property in a model's answer, or None and the reason."""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return None, "the model proposed no property in JSON"
    if found.get("possible") is not True:
        return None, "the model knows no property that decides the pairs"
    given = found.get("labels")
    labels = tuple(
        dict.fromkeys(
            well_formed(one).strip() for one in (given if isinstance(given, list) else []) if isinstance(one, str)
        )
    )
    labels = tuple(filter(None, labels))
    if any(len(one) > _LONGEST_LABEL for one in labels):
        return None, f"the model proposed a label of more than {_LONGEST_LABEL} characters"
    if not 2 <= len(labels) <= _MOST_LABELS:
        return None, f"the model proposed {len(labels):,} labels, and a property needs 2 to {_MOST_LABELS}"
    questions = [found.get(name) for name in ("left_question", "right_question")]
    left, right = (well_formed(one).strip() if isinstance(one, str) else "" for one in questions)
    relation, unmatched = found.get("relation"), found.get("unmatched")
    if not left or not right or relation not in {"same", "different"}:
        return None, "the model proposed a property without a question for each side"
    alone = frozenset(one for one in (unmatched if isinstance(unmatched, list) else []) if one in labels)
    return Property(left, right, labels, relation == "same", alone), ""
