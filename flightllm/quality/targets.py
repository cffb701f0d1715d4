"""The rates that a user asks of an operator that answers some rows by a cheap model."""

from dataclasses import dataclass
from typing import Final

USUAL_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Targets:
    """State the least recall, precision and accuracy, and how sure of them the user wants to be.

    All rates are relative to the answers of the oracle, the model that the user named. A rate that is absent allows no
    error of its kind: without a precision no row is accepted unasked. Each rate lies between 0 and 1, both
    excluded: only asking every row gives 1.

    Raises:
        ValueError: a rate or the confidence is outside (0, 1), no rate is given, or the label budget is negative.
    """

    recall: float | None = None
    precision: float | None = None
    accuracy: float | None = None
    confidence: float = USUAL_CONFIDENCE
    label_budget: int | None = None

    def __post_init__(self) -> None:
        for name in ("recall", "precision", "accuracy", "confidence"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1, both excluded, and is {value}.")
        if self.recall is None and self.precision is None and self.accuracy is None:
            raise ValueError("Give recall, precision or accuracy.")
        if self.label_budget is not None and self.label_budget < 0:
            raise ValueError(f"label_budget must be 0 or more, and is {self.label_budget}.")

    def __str__(self) -> str:
        """Return the rates in the words of SQL, such as `recall 0.95, precision 0.9, confidence 0.95`."""
        named = [(name, getattr(self, name)) for name in ("recall", "precision", "accuracy", "confidence")]
        return ", ".join(f"{name} {value:g}" for name, value in named if value is not None)

    @property
    def delta(self) -> float:
        """The allowed probability that a target is missed."""
        return round(1 - self.confidence, 12)
