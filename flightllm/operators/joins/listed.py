"""Show the model a list of one side's values with one or some values of the other side, and let it name the matches.

With one other value, the list has the labels of a classification of which none, one or several can be right. With
several other values, the prompt is a block of a nested loop (Trummer, "Implementing semantic join operators
efficiently", arXiv 2510.08489). The answers are verdicts to prove: a model errs more about lists than about pairs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np

from flightllm.common.cached import cached_property
from flightllm.functions.call import AICall, name_stub
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.joins.asked import answered, asking
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.classes import Near
from flightllm.operators.joins.exact import AskedPairs, both_ways
from flightllm.operators.joins.list_layout import Layout, Shown, Sizes, fitting, prompts_about
from flightllm.operators.joins.list_question import BLOCK_FIELDS, FIELDS, list_question
from flightllm.operators.joins.values import Ints
from flightllm.operators.rows import sorted_elements
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.known_answers import known_answers
from flightllm.operators.sets.room import SEPARATOR_TOKENS, tokens_left

_LABELS: Final = (50, 25, 12, 6, 3, 1)
"""Numbers of labels in a prompt that are tried, while the context is too small for more."""
_BLOCKS: Final = (10, 7, 5, 3, 2, 1)
"""Numbers of values of each side in a block that are tried."""
_PRICED: Final = 64
"""So many values of a side tell about how long all of them are."""
_WAVES: Final = (64, 4_096)
"""The prompts of the first wave, and of a later one."""
_MOST_KEPT: Final = 1 << 24
"""The most accepted pairs that are kept, and the most pairs without a verdict."""
_MOST_BAD: Final = 0.5
"""The way is left if more than this part of the answers is unusable."""


@dataclass(frozen=True)
class Listed:
    """The verdicts of prompts with lists of values."""

    asked: AskedPairs
    candidates: Candidates
    symmetric: bool
    block: bool
    """Whether a prompt has several values of both sides."""
    foreseen: bool
    """Whether this is a dry run, which has no answers."""

    @cached_property
    def prompts(self) -> int:
        """Return about how many prompts there are; that of pairs if the model's context takes no list."""
        left, count = self._labels_left, len(self.asked.values.found)
        sizes, usual = self._priced
        if sizes is None:
            return self.candidates.distinct
        fit = max(1, int(sizes.label_tokens // usual[0]))
        sizes = replace(sizes, labels=min(sizes.labels, fit))
        return prompts_about(self.candidates, count, sizes, left=left, symmetric=self.symmetric)

    @property
    def value_tokens(self) -> float:
        """Return about how many tokens the values of a prompt have; 0 if the model's context takes no list."""
        sizes, usual = self._priced
        if sizes is None:
            return 0.0
        most = sizes.labels, sizes.others
        return sum(min(n, len(side)) * one for n, side, one in zip(most, self._sides, usual, strict=True))

    @cached_property
    def _priced(self) -> tuple[Sizes | None, tuple[float, float]]:
        """Return the sizes of the prompts, and the usual tokens of a label and of another value, by some of them."""
        labels, others = (self._tokens(role, _some(side)) for role, side in enumerate(self._sides))
        return self._sizes(labels, others), (float(labels.mean()), float(others.mean()))

    def find(self) -> tuple[Near | None, str]:
        """Ask the prompts; return the verdicts and their basis, or None and the reason.

        Pairs of prompts without a usable answer have no verdict.

        Raises:
            EngineError: the engine is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        layout = self._layout()
        if layout is None:
            return None, "the model's context is too small for a list of values"
        most_unsure = min(self.candidates.distinct // 2, _MOST_KEPT)
        found, unsure = _Pairs(), _Pairs()
        for pairs in layout.too_long():
            unsure.add(pairs)
            if unsure.count > most_unsure:
                return None, "the values are too long for lists of them"
        call, runtime = self._call(layout.sizes), self.asked.runtime
        counters = runtime.proxy_counters(self.asked.join.name, call, call.binding)
        asked = bad = 0
        for wave in _waves(layout.prompts()):
            texts = list(self._texts(wave))
            known = known_answers(Asker(call, runtime, counters), call, texts) if self.foreseen else []
            for place, answer in answered(call, [*texts], runtime, counters):
                shown = wave[place]
                matches = _foreseen(shown, known[place]) if self.foreseen else answer
                matching = _matching(layout, shown, matches)
                if matching is None:
                    bad += 1
                    unsure.add(layout.pairs(shown.labels, shown.others))
                else:
                    found.add(matching)
            asked += len(wave)
            if self._binding.refusal:
                break
            if bad > _MOST_BAD * asked or unsure.count > most_unsure:
                return None, f"{bad:,} of {asked:,} answers name no records of the list"
            if found.count > _MOST_KEPT:
                return None, f"more than {_MOST_KEPT:,} pairs match"
        return self._verdicts(found, unsure), self._basis(layout, asked)

    def _verdicts(self, found: "_Pairs", unsure: "_Pairs") -> Near:
        accepted, without = found.all(), unsure.all()
        if self.symmetric:
            count = len(self.asked.values.found)
            accepted, without = (_candidates(both_ways(one, count), self.candidates) for one in (accepted, without))
        return Near(np.setdiff1d(without, accepted, assume_unique=True), accepted)

    def _basis(self, layout: Layout, asked: int) -> str:
        side, count = ("left", self.candidates.left) if layout.left else ("right", self.candidates.right)
        others = f" and up to {layout.sizes.others} of the other side" if self.block else ""
        return (
            f" with lists of up to {layout.sizes.labels} of the {len(count):,} values of the {side} side{others}"
            f" in {asked:,} prompts"
        )

    @cached_property
    def _labels_left(self) -> bool:
        """Return whether the left side gives the labels: it has fewer values, or as many but shorter ones."""
        left, right = self.candidates.left, self.candidates.right
        if len(left) != len(right):
            return len(left) < len(right)
        found = self.asked.values.found
        sizes = [sum(len(part or "") for n in side.tolist() for part in found[n]) for side in (left, right)]
        return sizes[0] < sizes[1]

    @property
    def _sides(self) -> tuple[Ints, Ints]:
        """Return the labels, and the values of the other side."""
        left, right = self.candidates.left, self.candidates.right
        return (left, right) if self._labels_left else (right, left)

    def _layout(self) -> Layout | None:
        found = self.asked.values.found
        labels, others = self._sides
        tokens = np.zeros(len(found), np.int64)
        tokens[labels] = self._tokens(0, labels)
        tokens[others] = np.maximum(tokens[others], self._tokens(1, others))
        sizes = self._sizes(tokens[labels], tokens[others])
        if sizes is None:
            return None
        return Layout(self.candidates, self._labels_left, tokens, sizes, self.symmetric)

    def _sizes(self, labels: Ints, others: Ints) -> Sizes | None:
        """Return the sizes of prompts for values with these tokens."""
        tried = [(n, n) for n in _BLOCKS] if self.block else [(n, 1) for n in _LABELS]
        binding = self._binding
        rooms = [(n, m, tokens_left(self._call(Sizes(n, m, 0, 0)), binding)) for n, m in tried]
        return fitting(rooms, labels, others)

    def _call(self, sizes: Sizes) -> AICall:
        """Return the call that asks the question about lists."""
        answer = list_question(self.asked.join.ai, sizes.labels, sizes.others if self.block else None)
        call = asking(self.asked.join.ai, answer, BLOCK_FIELDS if self.block else FIELDS)
        return name_stub(call)

    def _tokens(self, role: int, numbers: Ints) -> Ints:
        """Return the tokens of labels (role 0) or of other values (1) in a prompt."""
        side, count = self._side(role), self._binding.engine.count_tokens
        return np.asarray([SEPARATOR_TOKENS + count(self._record(side, n)) for n in numbers.tolist()], np.int64)

    def _side(self, role: int) -> int:
        """Return the side of the labels (role 0), or of the other values (1): 0 is the left one."""
        return role if self._labels_left else 1 - role

    def _texts(self, wave: Sequence[Shown]) -> Iterator[tuple[str, str]]:
        """Yield the values of the question's fields; neighbours with one list share its text."""
        labels, listed, other = None, "", self._side(1)
        for shown in wave:
            if shown.labels is not labels:
                labels, listed = shown.labels, self._list(self._side(0), shown.labels)
            one = self._list(other, shown.others) if self.block else self._record(other, int(shown.others[0]))
            yield listed, one

    def _list(self, side: int, numbers: Ints) -> str:
        return "\n".join(f"{at}. {self._record(side, n)}" for at, n in enumerate(numbers.tolist(), 1))

    def _record(self, side: int, number: int) -> str:
        """Return a value as a JSON object with the names of its fields; lists have their elements in order."""
        lists, record = self.asked.join.ai.lists, {}
        for (field, name), text in zip(self._names[side], self.asked.values.found[number], strict=False):
            if text is not None:
                record[name] = sorted_elements(text) if field in lists else text
        return json.dumps(record, ensure_ascii=False)

    @cached_property
    def _names(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Return the number and the name of each field of a side, in the order of its values."""
        join = self.asked.join
        own: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for field, (is_left, at) in enumerate(join.places):
            own[0 if is_left else 1].setdefault(at, field)
        found = [[(one[at], join.ai.fields[one[at]]) for at in sorted(one)] for one in own]
        return found[0], found[1]

    @property
    def _binding(self) -> ModelBinding:
        return self.asked.runtime.bindings[self.asked.join.ai.binding]


class _Pairs:
    """Pairs that are gathered."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        self.count = 0

    def add(self, pairs: Ints) -> None:
        self._parts.append(pairs)
        self.count += len(pairs)

    def all(self) -> Ints:
        return np.unique(np.concatenate(self._parts)) if self._parts else np.empty(0, np.int64)


def _some(numbers: Ints) -> Ints:
    return numbers[np.linspace(0, len(numbers) - 1, min(_PRICED, len(numbers))).astype(np.int64)]


def _waves(prompts: Iterator[Shown]) -> Iterator[list[Shown]]:
    """Yield the prompts in parts; a small first one tells whether the answers are usable."""
    size, later = _WAVES
    while wave := list(islice(prompts, size)):
        yield wave
        size = later


def _foreseen(shown: Shown, known: Any) -> Any:
    """Return the answer that is known, or else one match for each value of the other side."""
    if known is not None:
        return known
    return [[1 + at % len(shown.labels), 1 + at] for at in range(len(shown.others))] if shown.first else []


def _matching(layout: Layout, shown: Shown, answer: Any) -> Ints | None:
    """Return the pairs that an answer names; None for an unusable one."""
    if answer is None:
        return None
    named = np.asarray(answer, np.int64).reshape(-1, 2) - 1
    if not ((named >= 0) & (named < (len(shown.labels), len(shown.others)))).all():
        return None
    count = len(layout.tokens)
    labels, others = shown.labels[named[:, 0]], shown.others[named[:, 1]]
    return labels * count + others if layout.left else others * count + labels


def _candidates(pairs: Ints, candidates: Candidates) -> Ints:
    return pairs[candidates.has(pairs)]
