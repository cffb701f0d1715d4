"""Track how many rows a LIMIT above an operator still needs, and so how many prompts to send now."""

import math

_CAUTION = 0.75
"""The part of the likely need that one wave takes. A trial too many is wasted; one too few costs another wave."""


class LimitTracker:
    """Count the rows that the LIMIT needs and those that it got. One thread uses it.

    A trial is one distinct tuple, or one row if rows are taken in their order. The tracker learns how many rows a trial
    brings to the LIMIT. So the waves of trials grow if few rows pass. A wave has at least the trials that are needed
    even if all of them pass. Without a limit, every trial can run at once.

    Example, `LIMIT 10`:

    | after | passing rows per trial | trials needed |
    |---|---|---|
    | nothing | 1 / 2, a guess | 15 |
    | 20 trials, no row passed | 1 / 22 | 165 |
    | the same, and then 9 rows | 10 / 22 | 1 |
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._rows = 0
        self._trials = 0
        self.rows_per_trial = 1.0
        """The average number of rows of a trial."""

    @property
    def limited(self) -> bool:
        """Tell whether there is a limit."""
        return self._limit is not None

    @property
    def rows_left(self) -> int:
        """Return how many rows the LIMIT still needs.

        Raises:
            ValueError: there is no limit.
        """
        if self._limit is None:
            raise ValueError("there is no limit")
        return max(0, self._limit - self._rows)

    def add_rows(self, rows: int) -> None:
        """Count rows that reached the LIMIT."""
        self._rows += rows

    def add_trials(self, trials: int) -> None:
        """Count trials that the operator has finished, whether their rows passed or not."""
        self._trials += trials

    def trials_needed(self, running: int = 0) -> int:
        """Return how many more trials to begin while `running` ones are not finished; at least 1 if none runs.

        Raises:
            ValueError: there is no limit.
        """
        if self._limit is None:
            raise ValueError("there is no limit")
        left = self._limit - self._rows
        # One success in two trials is counted before the first trial, so the estimate is never 0.
        most = max(1.0, min(self.rows_per_trial, left))
        passing = (self._rows + most) / (self._trials + 2)
        wanted = max(math.ceil(left / most), int(_CAUTION * left / passing))
        return max(wanted - running, 0 if running else 1)
