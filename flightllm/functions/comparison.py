"""A condition on the answer of a call that compares it with constants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on the answer of a call; it holds or not for every answer that is not NULL."""

    holds: Callable[[Any], bool]
    text: str
    """The condition in SQL, with `{}` in place of the answer."""

    def __invert__(self) -> "Comparison":
        """Return the opposite condition."""
        return Comparison(lambda value: not self.holds(value), f"NOT ({self.text})")

    def both(self, other: "Comparison") -> "Comparison":
        """Return the condition that this one and another hold."""
        return Comparison(lambda value: self.holds(value) and other.holds(value), f"{self.text} AND {other.text}")

    def either(self, other: "Comparison") -> "Comparison":
        """Return the condition that this one or another holds."""
        return Comparison(lambda value: self.holds(value) or other.holds(value), f"({self.text} OR {other.text})")

    def about(self, subject: str) -> str:
        """Return the condition in SQL about a subject, which is written once."""
        first, *others = self.text.split("{}")
        return f"{first}{subject}{'…'.join(others)}"
