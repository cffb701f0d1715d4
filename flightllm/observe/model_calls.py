"""The totals of model calls by model and call site, for metrics."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

CALL_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper limits of the buckets of a call's duration; one more bucket counts durations above all limits."""
MOST_SITES = 200
"""The most call sites with figures of their own. Each site makes several series in Prometheus, which keeps them all."""
OTHER = "other"
"""The name under which all further call sites are counted together."""
COUNTED = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "failed_rows")
"""The counters of a call site that are summed."""

CallSite: TypeAlias = tuple[str, str, str]
"""Model, function and name of a call site."""


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """The figures of one call site of one statement."""

    model: str
    function: str
    site: str
    counts: Sequence[int]
    """One count for each name in `COUNTED`."""
    durations: Sequence[int]
    """How many answers took how long, by `CALL_SECONDS`."""
    seconds: float
    """The sum of the durations."""


@dataclass(slots=True)
class Durations:
    """A histogram of durations, such as how long the answers of one model took from sending the prompt."""

    bounds: Sequence[float] = CALL_SECONDS
    """Upper limits of the buckets; one more bucket counts durations above all limits."""
    counts: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Begin with empty buckets."""
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds

    def copy(self) -> "Durations":
        """Return a copy, to count further durations in."""
        return Durations(self.bounds, list(self.counts), self.seconds)


@dataclass(slots=True)
class ModelCalls:
    """The sums of all call sites so far. Not safe from several threads.

    A counter of Prometheus must never fall. So the first `MOST_SITES` call sites stay, and later ones are counted
    under `OTHER`.
    """

    sites: dict[CallSite, list[int]] = field(default_factory=dict)
    durations: dict[str, Durations] = field(default_factory=dict)

    def add(self, figures: Iterable[SiteFigures]) -> None:
        """Add the call sites of a statement."""
        for one in figures:
            if not any(one.counts):
                continue
            key = (one.model, one.function, one.site)
            if key not in self.sites and len(self.sites) >= MOST_SITES:
                key = (one.model, one.function, OTHER)
            _add(self.sites.setdefault(key, [0] * len(COUNTED)), one.counts)
            durations = self.durations.setdefault(one.model, Durations())
            _add(durations.counts, one.durations)
            durations.seconds += one.seconds

    def reserve(self, figures: Iterable[SiteFigures]) -> None:
        """Give call sites of running statements their own figures, from 0 on, while there is room.

        Without it, a copy could count a running statement under its own site, and a later copy under `OTHER`.
        """
        for one in figures:
            if any(one.counts) and len(self.sites) < MOST_SITES:
                self.sites.setdefault((one.model, one.function, one.site), [0] * len(COUNTED))

    def copy(self) -> "ModelCalls":
        """Return a copy, to add further statements to."""
        durations = {model: one.copy() for model, one in self.durations.items()}
        return ModelCalls({key: list(counts) for key, counts in self.sites.items()}, durations)


def _add(sums: list[int], more: Sequence[int]) -> None:
    for at, count in enumerate(more):
        sums[at] += count
