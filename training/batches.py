"""Examples as padded batches of tokens. Examples of similar length share a batch, so that it has little padding."""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from flightllm.common.text import shared_start
from training.tasks.base import Example

_SAID_TOKENS = (8, 200)
_TEXT_SAMPLE = 0.15
"""The share of the text's tokens that count in the loss, each with the weight of all tokens that it represents.

The sample saves most of the work of the last layer.
"""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt in the chat template with its answer, or several prompts with a common start: a trunk and its branches.

    - `branches`: the branch of each token; 0 is the trunk, which all branches read
    - `answers`: the weight of each answer token; a whole answer weighs the root of its length, so that long answers do
      not dominate short ones
    - `marks`: positions, and the numbers of the meanings of the words that end there
    - `pointers`: positions, and the positions to attend to from there
    - `text`: whether the remaining tokens are text that can be learned too
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    branches: tuple[int, ...]
    answers: tuple[float, ...]
    marks: tuple[tuple[int, int], ...]
    pointers: tuple[tuple[int, tuple[int, ...]], ...]
    text: bool


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A text, its tokens, and the start and end of each token."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]

    def find(self, words: str) -> Iterator[int]:
        """Yield the positions where `words` begin, in any case; parts of longer words do not count."""
        if not words:
            return
        before, after = r"(?<!\w)" if words[0].isalnum() else "", r"(?!\w)" if words[-1].isalnum() else ""
        for match in re.finditer(before + re.escape(words) + after, self.text, re.IGNORECASE):
            yield match.start()

    def at(self, character: int) -> int:
        """Return the index of the token that contains a character."""
        return bisect_right(self.offsets, character, key=lambda offset: offset[1])


@dataclass(frozen=True, slots=True)
class _Part:
    """The tokens of a prompt and of its answer, with marks and pointers at positions in both together."""

    asked: list[int]
    answered: list[int]
    marks: list[tuple[int, int]]
    pointers: dict[int, set[int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of rows × width, padded at the right.

    `targets` are the tokens that follow each token, and `weights` their weights in the loss.

    `mask` (rows × 1 × width × width) tells which tokens each token attends to. It is None if each attends to all before
    it. `marks` (marks × 3): row, column and meaning. `pointers` (pointers × 2): row and column. `pointed` (pointers ×
    width) tells to which columns each pointer leads.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    mask: torch.Tensor | None
    marks: torch.Tensor
    pointers: torch.Tensor
    pointed: torch.Tensor

    @property
    def seen(self) -> torch.Tensor:
        """Return the mask of the tokens that each token attends to (rows or 1 × 1 × width × width)."""
        if self.mask is not None:
            return self.mask
        return torch.ones(1, 1, self.ids.size(1), self.ids.size(1), dtype=torch.bool).tril()


def encode(
    tokenizer: Any, families: Sequence[Sequence[Example]], meanings: Mapping[str, int] = MappingProxyType({})
) -> list[Encoded]:
    """Return each family of examples as the engines send them to the model, with their answers and end tokens.

    Only marks with a meaning in the numbered `meanings` are kept.
    """
    examples = [example for family in families for example in family]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": example.prompt()}], add_generation_prompt=True, tokenize=False
        )
        for example in examples
    ]
    answers = [example.answer for example in examples]
    asked, answered = (
        tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True) for texts in (prompts, answers)
    )
    parts = (
        _part(
            example,
            meanings,
            _Tokens(prompts[place], asked.input_ids[place], asked.offset_mapping[place]),
            _Tokens(answers[place], answered.input_ids[place], answered.offset_mapping[place]),
        )
        for place, example in enumerate(examples)
    )
    return [_tree([next(parts) for _ in family], tokenizer.eos_token_id) for family in families]


def repetitions(count: int, vocabulary: range, rng: random.Random) -> list[Encoded]:
    """Return rows of random tokens that repeat once.

    In the repetition, each token can be copied: it follows the earlier occurrence of the token before it.
    """
    rows = []
    for _ in range(count):
        said = [rng.choice(vocabulary) for _ in range(rng.randint(*_SAID_TOKENS))]
        length = 2 * len(said)
        answers = [0.0] * (len(said) + 1) + [1.0] * (len(said) - 1)
        rows.append(Encoded((*said, *said), tuple(range(length)), (0,) * length, tuple(answers), (), (), text=False))
    return rows


def batches(rows: Iterable[Encoded], tokens: int, rng: random.Random, text_weight: float = 0.0) -> Iterator[Batch]:
    """Yield batches of at most `tokens` tokens with padding, in random order.

    Rows with branches have batches of their own.

    A token of text has the weight `text_weight`. Batches have few different shapes, with empty rows as filling, because
    arithmetic libraries prepare again for each new shape.
    """
    found = list(rows)
    groups = []
    for branched in (False, True):
        left = sorted((row for row in found if (row.branches[-1] > 0) is branched), key=lambda row: len(row.ids))
        while left:
            width = _width(len(left[-1].ids))
            height = max(1, tokens // width)
            groups.append((width, height, left[-height:]))
            del left[-height:]
    rng.shuffle(groups)
    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    for width, height, group in groups:
        yield _batch(group, width, height, text_weight, generator)


def _width(length: int) -> int:
    """Return a width rounded up to one of eight widths between two powers of two."""
    step = max(16, 1 << length.bit_length() - 4)
    return -(-length // step) * step


def _part(example: Example, meanings: Mapping[str, int], asked: _Tokens, answered: _Tokens) -> _Part:
    """Return an example's tokens, with its hints as positions of tokens."""
    marks = []
    for words, number in ((words, meanings[meaning]) for words, meaning in example.marks if meaning in meanings):
        if not words:
            marks.append((len(asked.ids) - 1, number))
            continue
        marks += [(asked.at(start + len(words) - 1), number) for start in asked.find(words)]
        marks += [(len(asked.ids) + answered.at(start + len(words) - 1), number) for start in answered.find(words)]
    pointers: dict[int, set[int]] = {}
    for pointer in example.pointers:
        first = answered.at(pointer.before)
        starts = [start + len(pointer.words) - pointer.length for start in asked.find(pointer.words)]
        for start in map(asked.at, starts) if pointer.words else [0]:
            pointers.setdefault(len(asked.ids) + first - 1, set()).add(start)
        for start in starts:  # each copied token points to the token to copy next
            copied = range(asked.at(start), asked.at(start + pointer.length - 1))
            for own, place in zip(range(first, len(answered.ids)), copied, strict=False):
                if answered.ids[own] != asked.ids[place]:
                    break
                pointers.setdefault(len(asked.ids) + own, set()).add(place + 1)
    return _Part(asked.ids, answered.ids, marks, {place: found for place, found in pointers.items() if found})


def _tree(parts: Sequence[_Part], end: int) -> Encoded:
    """Return one row with the prompts' common start once, followed by the rest and the answer of each prompt."""
    shared = min((shared_start(parts[0].asked, part.asked) for part in parts[1:]), default=0)
    ids, positions = parts[0].asked[:shared], list(range(shared))
    branches, answers = [0] * shared, [0.0] * shared
    marks: set[tuple[int, int]] = set()
    pointers = []
    for branch, part in enumerate(parts):
        asked, answered = part.asked, part.answered
        rest = [*asked[shared:], *answered, end]
        moved = len(ids) - shared
        marks |= {(place + moved * (place >= shared), number) for place, number in part.marks}
        for place, found in part.pointers.items():
            pointers.append((place + moved, tuple(one + moved * (one >= shared) for one in sorted(found))))
        ids += rest
        positions += range(shared, shared + len(rest))
        branches += [branch + 1 if shared else 0] * len(rest)
        answers += [0.0] * (len(asked) - shared) + [(len(answered) + 1) ** -0.5] * (len(answered) + 1)
    return Encoded(
        tuple(ids), tuple(positions), tuple(branches), tuple(answers), tuple(sorted(marks)), tuple(pointers), text=True
    )


def _batch(rows: Sequence[Encoded], width: int, height: int, text_weight: float, generator: torch.Generator) -> Batch:
    """Return rows as one batch of `height` × `width`.

    A row with the trunk `a b` and the branches `c d` and `e f`, where `d` and `f` are answers:

    | token | branch | position | target | counts | attends to |
    |---|---|---|---|---|---|
    | a | 0 | 0 | b | as text | a |
    | b | 0 | 1 | c | no: another branch | a b |
    | c | 1 | 2 | d | as an answer | a b c |
    | d | 1 | 3 | e | no: another branch | a b c d |
    | e | 2 | 2 | f | as an answer | a b e |
    | f | 2 | 3 | | no: the row ends | a b e f |
    """
    ids, positions, branches = (torch.zeros(height, width, dtype=torch.long) for _ in range(3))
    branches[len(rows) :] = -1
    marks = [(place, *mark) for place, row in enumerate(rows) for mark in row.marks]
    pointers = [(place, column) for place, row in enumerate(rows) for column, _ in row.pointers]
    pointed = torch.zeros(len(pointers), width, dtype=torch.bool)
    for at, found in enumerate(found for row in rows for _, found in row.pointers):
        pointed[at, list(found)] = True
    answers, text = torch.zeros(height, width), torch.zeros(height, width, dtype=torch.bool)
    for place, row in enumerate(rows):
        length = len(row.ids)
        ids[place, :length] = torch.tensor(row.ids)
        positions[place, :length] = torch.tensor(row.positions)
        branches[place, :length] = torch.tensor(row.branches)
        branches[place, length:] = -1
        answers[place, :length] = torch.tensor(row.answers)
        text[place] = row.text
    followed = (branches[:, :-1] == branches[:, 1:]) & (branches[:, 1:] >= 0)
    weights = torch.zeros(height, width)
    # The weight is that of the target, which is in the next column.
    weights[:, :-1] = answers[:, 1:] * followed
    if text_weight:
        # Each sampled token has the weight of all text tokens that it represents.
        text &= (weights == 0) & (torch.rand(height, width, generator=generator) < _TEXT_SAMPLE)
        weights[:, :-1] += text[:, :-1] * followed * (text_weight / _TEXT_SAMPLE)
    mask = None
    if int(branches.max()) > 0:
        same = (branches[:, :, None] == branches[:, None, :]) | (branches[:, None, :] == 0)
        mask = (same & torch.ones(width, width, dtype=torch.bool).tril())[:, None]
    placed = (torch.tensor(marks, dtype=torch.long).view(-1, 3), torch.tensor(pointers, dtype=torch.long).view(-1, 2))
    return Batch(ids, positions, ids.roll(-1, 1), weights, mask, *placed, pointed)
