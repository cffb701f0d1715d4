"""Examples as padded batches of tokens: neighbours in length together, so that little is padding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flightllm.demo.tasks.base import Example
from flightllm.llm.local_plan import shared_length

_SAID_TOKENS = (8, 200)
_TEXT_SAMPLE = 0.15
"""Share of the text's tokens that are counted, each for as many as it stands for: it saves most of the last layer."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt in the chat template with its answer, or several that begin alike: a trunk and its branches.

    `branches` say which branch each token is of (0: the trunk, read by all), `answers` how much each token of an answer
    counts: the root of its length for all of it, so that long answers do not drown the short. `text`: the rest is text
    that can be learned too.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    branches: tuple[int, ...]
    answers: tuple[float, ...]
    text: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows × width, padded at the right: `targets` say which token follows each, `weights` how much that counts.

    `mask` (rows × 1 × width × width) says which tokens each one sees, or is None where it is all before it.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    mask: torch.Tensor | None


def encode(tokenizer: Any, families: Sequence[Sequence[Example]]) -> list[Encoded]:
    """Return each family of examples as the engines would give them to the model, with their answers and end tokens."""
    examples = [example for family in families for example in family]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": example.prompt()}], add_generation_prompt=True, tokenize=False
        )
        for example in examples
    ]
    asked = tokenizer(prompts, add_special_tokens=False).input_ids
    answered = tokenizer([example.answer for example in examples], add_special_tokens=False).input_ids
    pairs = iter(zip(asked, answered, strict=True))
    return [_tree([next(pairs) for _ in family], tokenizer.eos_token_id) for family in families]


def repetitions(count: int, vocabulary: range, rng: random.Random) -> list[Encoded]:
    """Return random tokens said twice: the second time, each can be copied from where the last one stood before."""
    rows = []
    for _ in range(count):
        said = [rng.choice(vocabulary) for _ in range(rng.randint(*_SAID_TOKENS))]
        length = 2 * len(said)
        answers = [0.0] * (len(said) + 1) + [1.0] * (len(said) - 1)
        rows.append(Encoded((*said, *said), tuple(range(length)), (0,) * length, tuple(answers), text=False))
    return rows


def batches(rows: Iterable[Encoded], tokens: int, rng: random.Random, text_weight: float = 0.0) -> Iterator[Batch]:
    """Cut rows into batches of at most `tokens` with padding, in random order; rows with branches by themselves.

    A token of text counts `text_weight`. Batches come in few shapes, filled up with empty rows: arithmetic libraries
    prepare anew for each shape.
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
    """Round up to one of eight widths between two powers of two."""
    step = max(16, 1 << length.bit_length() - 4)
    return -(-length // step) * step


def _tree(pairs: Sequence[tuple[list[int], list[int]]], end: int) -> Encoded:
    """Lay the prompts' common start down once, then each one's rest with its answer."""
    shared = min((shared_length(pairs[0][0], asked) for asked, _ in pairs[1:]), default=0)
    ids, positions = pairs[0][0][:shared], list(range(shared))
    branches, answers = [0] * shared, [0.0] * shared
    for branch, (asked, answered) in enumerate(pairs):
        rest = [*asked[shared:], *answered, end]
        ids += rest
        positions += range(shared, shared + len(rest))
        branches += [branch + 1 if shared else 0] * len(rest)
        answers += [0.0] * (len(asked) - shared) + [(len(answered) + 1) ** -0.5] * (len(answered) + 1)
    return Encoded(tuple(ids), tuple(positions), tuple(branches), tuple(answers), text=True)


def _batch(rows: Sequence[Encoded], width: int, height: int, text_weight: float, generator: torch.Generator) -> Batch:
    ids, positions, branches = (torch.zeros(height, width, dtype=torch.long) for _ in range(3))
    branches[len(rows) :] = -1
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
    weights[:, :-1] = answers[:, 1:] * followed
    if text_weight:
        text &= (weights == 0) & (torch.rand(height, width, generator=generator) < _TEXT_SAMPLE)
        weights[:, :-1] += text[:, :-1] * followed * (text_weight / _TEXT_SAMPLE)
    mask = None
    if int(branches.max()) > 0:
        same = (branches[:, :, None] == branches[:, None, :]) | (branches[:, None, :] == 0)
        mask = (same & torch.ones(width, width, dtype=torch.bool).tril())[:, None]
    return Batch(ids, positions, ids.roll(-1, 1), weights, mask)
