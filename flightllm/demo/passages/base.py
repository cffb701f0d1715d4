"""A generated text and all that is known to be true of it, from which the tasks draw their questions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A yes/no question or statement about the text."""

    prompt: str
    truth: bool


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels of which exactly one fits; `others` are wrong. `unseen` ones are no labels in training."""

    label: str
    others: tuple[str, ...]
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A value that stands in the text, what a user may call its field, and a question for it.

    `value` is None where the text does not say.
    """

    fields: tuple[str, ...]
    question: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Rating:
    """What to rate, and how much it holds: `level` from 0 to 1."""

    prompt: str
    level: float


@dataclass(frozen=True, slots=True)
class Passage:
    """One text. `column` is what a table may call it; `extras` are further short columns of its row.

    `replies` are free questions with their answers.
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
