"""How many rows a LIMIT above an operator still needs, and so how many are worth asking about now."""

import math


class Demand:
    """Rows wanted and got so far; one thread uses it.

    The share of rows that reach the LIMIT is learned on the way, so that what is asked about grows in waves where few
    do. Without a limit any number may be asked about.
    """

    def __init__(self, wanted: int | None = None) -> None:
        self._wanted = wanted
        self._got = 0
        self._seen = 0

    @property
    def limited(self) -> bool:
        """Tell whether there is a limit."""
        return self._wanted is not None

    def got(self, rows: int) -> None:
        """Count rows that reached the LIMIT."""
        self._got += rows

    def seen(self, rows: int) -> None:
        """Count rows that the operator is done with, whether they passed or not."""
        self._seen += rows

    def room(self, asked: int = 0) -> int:
        """Return how many more rows to ask about while `asked` are on their way; at least one while none is."""
        if self._wanted is None:
            raise ValueError("there is no limit")
        passing = (self._got + 1) / (self._seen + 2)
        needed = math.ceil((self._wanted - self._got) / passing)
        return max(needed - asked, 0 if asked else 1)
