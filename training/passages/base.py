"""A generated text and its known facts, from which the tasks draw their questions."""

from dataclasses import dataclass

Mark = tuple[str, str]
"""Words and the key of their meaning. Words of the same meaning in texts, questions and labels have the same key."""


@dataclass(frozen=True, slots=True)
class Check:
    """A yes/no question or statement about the text.

    `about` are the keys of the meanings that it asks for. The word `named` expresses the first of them.
    """

    prompt: str
    truth: bool
    about: tuple[str, ...] = ()
    named: str = ""


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels of which exactly one fits; `others` are wrong. Training does not use `unseen` labels.

    `about` are the keys of the meanings of the label and of the others, in this order.
    """

    label: str
    others: tuple[str, ...]
    unseen: bool = False
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A value in the text, possible names of its field, and a question for it.

    `value` is None if the text does not have it. `about` is the key of the meaning that the question and the fields ask
    for.
    """

    fields: tuple[str, ...]
    question: str
    value: str | None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating: the prompt, and the right `level` from 0 to 1."""

    prompt: str
    level: float


@dataclass(frozen=True, slots=True)
class Passage:
    """One text. `column` is a name for it in a table; `extras` are further short columns of its row.

    `replies` are free questions with their answers. `marks` tell the meanings of words in the row.
    """

    kind: str
    column: str
    text: str
    checks: tuple[Check, ...] = ()
    classes: tuple[Classes, ...] = ()
    facts: tuple[Fact, ...] = ()
    ratings: tuple[Rating, ...] = ()
    replies: tuple[tuple[str, str], ...] = ()
    summary: str | None = None
    sentiment: str | None = None
    extras: tuple[tuple[str, str], ...] = ()
    marks: tuple[Mark, ...] = ()
