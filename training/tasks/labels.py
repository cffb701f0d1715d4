"""Classification: one label of several, which are all in the prompt."""

import json
from dataclasses import replace

from training.passages.base import Passage
from training.phrases import Split, Writer
from training.tasks.base import Example, Pointer
from training.tasks.rows import row_of


def ask_label(writer: Writer, passage: Passage, *, unseen: bool = False) -> Example | None:
    """Return a choice between the right label and up to six wrong ones; None if the passage has no labels.

    Training uses no `unseen` labels. A few calls ask for every label that applies; exactly one label applies.
    """
    classes = [classes for classes in passage.classes if classes.unseen is unseen]
    if not classes or (unseen and writer.split is Split.TRAINING):
        return None
    chosen = writer.rng.choice(classes)
    count = min(len(chosen.others), writer.rng.randint(1, 6))
    labels = [chosen.label, *writer.rng.sample(chosen.others, count)]
    writer.rng.shuffle(labels)
    about = dict(zip((chosen.label, *chosen.others), chosen.about, strict=False))
    task = "classify, unseen labels" if unseen else "classify"
    row = row_of(writer, passage)
    multi = writer.split is Split.TRAINING and writer.chance(0.08)
    # for each label, the part of the label list that ends with it
    told = [labels[: place + 1] for place in range(len(labels))]
    ends = [json.dumps(one, separators=(",", ":"))[:-2] if multi else f": {', '.join(one)}" for one in told]
    answer = _labels(chosen.label) if multi else chosen.label
    pointer = Pointer(answer.index(chosen.label), ends[labels.index(chosen.label)], len(chosen.label))
    marks = (*passage.marks, *((end, about[one]) for end, one in zip(ends, labels, strict=True) if one in about))
    if chosen.label in about:
        marks = (*marks, ("", about[chosen.label]))
    options = (("multi", True),) if multi else ()
    return Example(task, "ai_classify", tuple(labels), row, answer, options, marks=marks, pointers=(pointer,))


def every_label(example: Example) -> Example:
    """Return the same question for every label that applies; exactly one label applies."""
    return replace(example, answer=_labels(example.answer), options=(("multi", True),))


def ask_sentiment(_: Writer, passage: Passage) -> Example | None:
    """Return a question for the mood, one of four; None if the passage has no mood."""
    if passage.sentiment is None:
        return None
    mood, row = passage.sentiment, ((passage.column, passage.text),)
    pointers = tuple(Pointer(0, before + mood, len(mood)) for before in ("of: ", ", "))
    return Example("sentiment", "ai_sentiment", None, row, mood, marks=passage.marks, pointers=pointers)


def _labels(label: str) -> str:
    return json.dumps({"labels": [label]}, separators=(",", ":"))
