"""The promise of a call: how near its rows come to those of its model, while a cheaper proxy decides most of them."""

from dataclasses import dataclass
from typing import Final

from flightllm.quality.targets import Targets

A_FEW_AT_A_TIME: Final = "a LIMIT takes its rows a few at a time"
"""Why a call asks its model about every row under a LIMIT: waves of a few rows are too few to sample."""


@dataclass(frozen=True)
class Promise(Targets):
    """The targets of a call, relative to the answers of the call's own model, and the proxies that can decide rows.

    `recall` and `precision` are about the rows for which a filter is true; of a classification, about each label.
    `label_budget` is the most prompts that the call's own model gets; None for no limit.
    """

    proxies: tuple[str, ...] = ()
    """The bindings (see `AICall.binding`) of the proxies; of several, a pilot chooses."""
    named: bool = False
    """Whether the call names its proxies; otherwise they are all that the model has, and perhaps no proxy suits."""
    exact: str = ""
    """Why the model is asked about every row all the same, which keeps any promise; empty where a proxy can decide."""
    filters: int = 1
    """How many filters make the promise together: it is about the rows that pass all of them."""

    def __str__(self) -> str:
        """Return the targets in the words of SQL; see `Targets`."""
        together = [f"{self.filters} filters together"] if self.filters > 1 else []
        return ", ".join([super().__str__(), *together])
