"""A generated text and all that is known to be true of it, from which the tasks draw their questions."""

from dataclasses import dataclass

Mark = tuple[str, str]
"""Words, and what they speak of: equal for all that mean the same, in texts, questions and labels."""


@dataclass(frozen=True, slots=True)
class Check:
    """A yes/no question or statement about the text; `about`: what it asks for, the first of it by the word `named`."""

    prompt: str
    truth: bool
    about: tuple[str, ...] = ()
    named: str = ""


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels of which exactly one fits; `others` are wrong. `unseen` ones are no labels in training.

    `about`: what the label and the others mean, one after another.
    """

    label: str
    others: tuple[str, ...]
    unseen: bool = False
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A value that stands in the text, what a user may call its field, and a question for it.

    `value` is None where the text does not say. `about`: what question and fields ask for.
    """

    fields: tuple[str, ...]
    question: str
    value: str | None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Rating:
    """What to rate, and how much it holds: `level` from 0 to 1."""

    prompt: str
    level: float


@dataclass(frozen=True, slots=True)
class Passage:
    """One text. `column` is what a table may call it; `extras` are further short columns of its row.

    `replies` are free questions with their answers. `marks`: what words of the row speak of.
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
