"""Track how many rows a LIMIT above an operator still needs, to decide how many prompts to send now."""

import math


class LimitTracker:
    """Count the rows that the LIMIT needs and those that it got. One thread uses it.

    A trial is one distinct tuple, or one row if rows are taken in their order. The tracker learns how many rows a trial
    brings to the LIMIT. So the waves of trials grow if few rows pass. Without a limit, every trial can run at once.

    Example, `LIMIT 10`:

    | after | passing rows per trial | trials needed |
    |---|---|---|
    | nothing | 1 / 2, a guess | 20 |
    | 20 trials, no row passed | 1 / 22 | 220 |
    | the same, and then 9 rows | 10 / 22 | 3 |
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._rows = 0
        self._trials = 0
        self.rows_per_trial = 1.0
        """The average number of rows of a trial."""

    @property
    def limited(self) -> bool:
        """Return whether there is a limit."""
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
        passing = (self._rows + max(1.0, min(self.rows_per_trial, left))) / (self._trials + 2)
        return max(math.ceil(left / passing) - running, 0 if running else 1)
