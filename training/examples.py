"""The stream of training and test examples. The same seed, number and progress always give the same examples."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from training.passages.base import Passage
from training.passages.films import write_synopsis
from training.passages.records import KINDS, write_record
from training.passages.reviews import write_neutral, write_review
from training.passages.samples import write_sample
from training.passages.tickets import write_ticket
from training.passages.topics import write_topic
from training.phrases import Split, Writer, load_language
from training.tasks.base import Example
from training.tasks.copies import ask_copy
from training.tasks.extracts import ask_extract, ask_question
from training.tasks.filters import ask_filter
from training.tasks.labels import ask_label, ask_sentiment
from training.tasks.needles import ask_needles
from training.tasks.rows import row_of
from training.tasks.scores import ask_score
from training.tasks.texts import ask_in_vain, ask_summary

Ask = Callable[[Writer, Passage], Example | None]

_TASKS: Sequence[tuple[Ask, float]] = (
    (ask_filter, 36),
    (ask_label, 16),
    (ask_sentiment, 4),
    (ask_score, 10),
    (ask_extract, 16),
    (ask_question, 10),
    (ask_summary, 4),
    (ask_in_vain, 1),
    (ask_copy, 6),
)
_NEEDLE_SHARE = 0.14
_NEEDLE_WORDS = (40, 1150)
_NEEDLES = 8
_FIELDS_FIRST_SHARE = 0.2
_FAMILY_SHARE = 0.4
_FAMILY = 10
"""The most questions on one row."""
_LEAST_BRIEF = 0.15


def training_family(seed: object, number: int, progress: float = 1.0) -> list[Example]:
    """Return training examples whose prompts begin with the same row, or a single example.

    Several questions on one row teach more per token than as many rows. With growing `progress`, from 0 to 1, fewer
    texts are brief and more are long contexts. Long contexts are few, and each is as long as many other texts together.
    """
    writer = _writer(f"{seed} {number}", Split.TRAINING)
    writer.brief = writer.chance(max(_LEAST_BRIEF, 1 - 2 * progress))
    if writer.chance(_NEEDLE_SHARE * min(1.0, 3 * progress)):
        writer.brief = False
        shortest, longest = map(math.log, _NEEDLE_WORDS)
        return ask_needles(writer, int(math.exp(writer.rng.uniform(shortest, longest))), writer.count(1, _NEEDLES))
    asks, weights = zip(*_TASKS, strict=True)
    if not writer.chance(_FAMILY_SHARE):
        example = None
        while example is None:
            example = writer.rng.choices(asks, weights)[0](writer, _passage(writer))
        return [replace(example, fields_first=writer.chance(_FIELDS_FIRST_SHARE))]
    passage = _passage(writer)
    row = row_of(writer, passage, plain=bool(passage.facts))
    found: dict[str, Example] = {}
    for _ in range(2 * _FAMILY):
        example = writer.rng.choices(asks, weights)[0](writer, passage)
        if (
            example is not None
            and (passage.column, passage.text) in example.fields
            and "question" not in dict(example.fields)
        ):
            asked = replace(example, fields=row, fields_first=True)
            found[asked.prompt()] = asked
    return list(found.values())[:_FAMILY] or training_family(seed, number + (1 << 40), progress)


def training_text(seed: int, number: int) -> str:
    """Return a training passage with true statements about it, its labels and its mood."""
    passage = _passage(_writer(f"{seed} text {number}", Split.TRAINING))
    said = [check.prompt for check in passage.checks if check.truth]
    said += [classes.label for classes in passage.classes if not classes.unseen]
    return " ".join([passage.text, *said, passage.sentiment or ""])


def held_out_writer(seed: int, name: str) -> Writer:
    """Return a writer that uses only sentence patterns that training never uses."""
    return _writer(f"held out {seed} {name}", Split.HELD_OUT)


def held_out(ask: Ask, seed: int, count: int) -> list[Example]:
    """Return `count` test examples of one task, in text that shares no sentence pattern with the training text."""
    writer = held_out_writer(seed, ask.__name__)
    examples: list[Example] = []
    while len(examples) < count:
        example = ask(writer, _passage(writer, samples=False))
        if example is not None:
            examples.append(example)
    return examples


def _passage(writer: Writer, *, samples: bool = True) -> Passage:
    kinds = ["record", "topic", "ticket", "review", "film", "neutral", *(["sample"] if samples else [])]
    [kind] = writer.rng.choices(kinds, [30, 16, 12, 26, 11, 2, 14][: len(kinds)])
    match kind:
        case "record":
            return write_record(writer, writer.rng.choice(KINDS))
        case "topic":
            return write_topic(writer)
        case "ticket":
            return write_ticket(writer)
        case "review":
            return write_review(writer)
        case "film":
            return write_synopsis(writer)
        case "neutral":
            return write_neutral(writer)
        case _:
            return write_sample(writer)


def _writer(seed: str, split: Split) -> Writer:
    return Writer(random.Random(seed), load_language("records/person")["words"], split)
