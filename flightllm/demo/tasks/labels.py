"""One label of several, all given in the prompt."""

import json

from flightllm.demo.passages.base import Passage
from flightllm.demo.phrases import Split, Writer
from flightllm.demo.tasks.base import Example
from flightllm.demo.tasks.rows import row_of


def ask_label(writer: Writer, passage: Passage, *, unseen: bool = False) -> Example | None:
    """Offer the label that fits among up to six that do not.

    Training uses no `unseen` labels. A few calls ask for every label that applies, of which there is one.
    """
    classes = [classes for classes in passage.classes if classes.unseen is unseen]
    if not classes or (unseen and writer.split is Split.TRAINING):
        return None
    chosen = writer.rng.choice(classes)
    count = min(len(chosen.others), writer.rng.randint(1, 6))
    labels = [chosen.label, *writer.rng.sample(chosen.others, count)]
    writer.rng.shuffle(labels)
    task = "classify, unseen labels" if unseen else "classify"
    row = row_of(writer, passage)
    if writer.split is Split.TRAINING and writer.chance(0.08):
        answer = json.dumps({"labels": [chosen.label]}, separators=(",", ":"))
        return Example(task, "ai_classify", tuple(labels), row, answer, (("multi", True),))
    return Example(task, "ai_classify", tuple(labels), row, chosen.label)


def ask_sentiment(_: Writer, passage: Passage) -> Example | None:
    """Ask for the mood, one of four."""
    if passage.sentiment is None:
        return None
    return Example("sentiment", "ai_sentiment", None, ((passage.column, passage.text),), passage.sentiment)
