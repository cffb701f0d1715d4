"""Tell whether a process hangs, by when it was last heard."""

from dataclasses import dataclass

LOOKS = 4
"""A process hangs that is silent at so many looks in a row: on a frozen machine the clock goes on, but nobody looks."""


@dataclass(slots=True)
class Silence:
    """Count at how many looks in a row nothing was heard of a process since the look before."""

    heard: float
    """When the process was last heard, at the latest look."""
    looks: int = 0

    def hangs(self, heard: float, *, listening: bool) -> bool:
        """Take a look at when the process was last heard, and tell whether it hangs.

        A process that is not `listening` yet says nothing, so it never hangs.
        """
        self.looks = self.looks + 1 if listening and heard == self.heard else 0
        self.heard = heard
        return self.looks >= LOOKS
