"""Follow how many rows a LIMIT above an operator still needs, to size the next wave of calls."""

import math


class Demand:
    """The rows that a LIMIT needs and has so far. One thread uses it.

    A trial is a distinct tuple, or a row where rows are taken in their order. The operator learns how many rows a trial
    brings to the LIMIT. If trials bring few rows, the waves grow. Without a limit, waves can have any size.
    """

    def __init__(self, wanted: int | None = None) -> None:
        self._wanted = wanted
        self._got = 0
        self._seen = 0
        self.rows_per_trial = 1.0
        """The average number of rows of a trial."""

    @property
    def limited(self) -> bool:
        """Tell whether there is a limit."""
        return self._wanted is not None

    @property
    def left(self) -> int:
        """Return how many rows the LIMIT still wants.

        Raises:
            ValueError: there is no limit.
        """
        if self._wanted is None:
            raise ValueError("there is no limit")
        return max(0, self._wanted - self._got)

    def got(self, rows: int) -> None:
        """Count rows that reached the LIMIT."""
        self._got += rows

    def seen(self, trials: int) -> None:
        """Count trials that the operator is done with, whether they passed or not."""
        self._seen += trials

    def room(self, asked: int = 0) -> int:
        """Return how many more trials to make while `asked` trials are running; at least one if no trial is running.

        Before the first trial ends, half of the trials are assumed to pass.
        """
        if self._wanted is None:
            raise ValueError("the demand has no limit")
        left = self._wanted - self._got
        passing = (self._got + max(1.0, min(self.rows_per_trial, left))) / (self._seen + 2)
        return max(math.ceil(left / passing) - asked, 0 if asked else 1)
