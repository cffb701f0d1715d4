"""The promise of a call: how near its rows come to those of its model, while a cheaper proxy decides most of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """The targets of a call, relative to the answers of the call's own model, and the proxies that can decide rows.

    `recall` and `precision` are about the rows for which a filter is true; of a classification, about each label.
    `accuracy` is the share of rows whose answer is that of the model. All targets hold together with probability
    `confidence`.
    """

    recall: float | None
    precision: float | None
    accuracy: float | None
    confidence: float
    label_budget: int | None
    """The most prompts that the call's own model gets; None for no limit."""
    proxies: tuple[str, ...]
    """The bindings (see `AICall.binding`) of the proxies; of several, a pilot chooses."""
    exact: str = ""
    """Why the model is asked about every row all the same, which keeps any promise; empty where a proxy can decide."""

    def __str__(self) -> str:
        """Return the targets in the words of SQL, such as `recall 0.95, precision 0.9, confidence 0.95`."""
        named = [("recall", self.recall), ("precision", self.precision), ("accuracy", self.accuracy)]
        parts = [f"{name} {value:g}" for name, value in [*named, ("confidence", self.confidence)] if value is not None]
        return ", ".join(parts)
