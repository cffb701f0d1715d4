"""The totals of all statements of a server so far, for metrics."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Upper limits of the duration buckets; one more bucket counts durations above all limits."""
SUMMED = (
    *("rows", "bytes", "calls", "answered", "cache_hits", "failed_rows"),
    *("prompt_tokens", "cached_tokens", "completion_tokens"),
)
"""The columns of `system.queries` that are summed."""


@dataclass(slots=True)
class Totals:
    """Statements by kind and status, their durations, and sums of their counters. Not safe from several threads."""

    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    seconds: float = 0.0
    cost: float = 0.0
    sums: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SUMMED, 0)))

    def finished(self, row: Mapping[str, Any]) -> None:
        """Add a statement that has ended, by its row of `system.queries`."""
        self.statements[row["kind"], row["status"]] += 1
        self.durations[bisect_left(SECONDS, row["seconds"])] += 1
        self.seconds += row["seconds"]
        self.counted(row)

    def counted(self, row: Mapping[str, Any]) -> None:
        """Add the counters of a statement so far."""
        self.cost += row["cost"] or 0.0
        for name in SUMMED:
            self.sums[name] += row[name]

    def copy(self) -> "Totals":
        """Return a copy, to add further statements to."""
        return Totals(self.statements.copy(), list(self.durations), self.seconds, self.cost, self.sums.copy())
