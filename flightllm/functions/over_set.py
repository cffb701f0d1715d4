"""A call that answers for a set of values at once: each of its answers can depend on all values of the set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar


class Stubbed(Protocol):
    """A call that is named by everything that decides its answers: an `AICall`, which has an `OverSet`."""

    @property
    def stub(self) -> str:
        """Return the name."""


Q = TypeVar("Q", bound=Stubbed)

LABELS_HERE: Final = "<what the rows say>"
"""Stands in a question for a text that the method knows only once it has read the rows, such as a list of labels."""


@dataclass(frozen=True, slots=True)
class OverSet(Generic[Q]):
    """The method of a call over sets, and the questions that the method asks the model.

    Example: `ai_agg(review, 'What do they like?')` has the method `agg` and the questions `extract`, `combine` and
    `write`. The call itself is never sent. Its questions are.
    """

    method: str
    """The name of the runner, see `operators/sets/runners.py`."""
    questions: Mapping[str, Q]
    """The calls that are sent to the model, by name; their fields are texts."""
    options: tuple[tuple[str, Any], ...] = ()
    """The settings of the method by name; their texts decide the name of the stub."""
    whole: bool = True
    """True where all rows of the operator are one set. False where each value is a set: a list, given as one text."""
    embeds: bool = False
    """Whether the method needs the embedding model."""

    def option(self, name: str) -> Any:
        """Return a setting of the method.

        Raises:
            KeyError: the method has no such setting.
        """
        return dict(self.options)[name]

    @property
    def identity(self) -> tuple[str, ...]:
        """Return texts that differ where the answers can differ."""
        asked = (f"{name} {call.stub}" for name, call in self.questions.items())
        return (self.method, repr(self.options), f"whole {self.whole}", *asked)
