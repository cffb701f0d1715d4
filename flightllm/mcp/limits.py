"""The limits of the statements and the answers of agents."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one statement can use and return, and whether statements can change anything."""

    rows: int = 1_000
    """The most rows of an answer; a tool call can ask for fewer."""
    cost: float | None = 1.0
    """The most that a statement can cost, where the model has prices; None: no limit of this server."""
    calls: int | None = 1_000
    """The most model calls of a statement; None: no limit of this server."""
    changes: bool = False

    def headers(self, cost: float | None = None, calls: int | None = None, *, priced: bool = True) -> Mapping[str, str]:
        """Return the settings that enforce the limits, as call headers; `cost` and `calls` can lower the limits.

        `priced` is false where no model has a price, because the server then refuses a limit of the cost.

        A header holds for its own call, so that `SET` in a session cannot raise a limit.
        """
        chosen: dict[str, float | int | None] = {
            "max_cost": _lower(self.cost, cost) if priced else None,
            "max_calls": _lower(self.calls, calls),
        }
        settings = {name: str(value) for name, value in chosen.items() if value is not None}
        if not self.changes:
            settings["read_only"] = "on"
        return {f"x-flightllm-{name}": value for name, value in settings.items()}


def _lower(one: float | None, other: float | None) -> float | None:
    """Return the lower of two limits; None stands for no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)
