"""Detects a process that hangs, by the time of its last message."""

from dataclasses import dataclass

LOOKS = 4
"""A process hangs if it is silent at this many checks in a row.

Counting checks, not seconds, protects a frozen machine: there the clock goes on, but the checks stop.
"""


@dataclass(slots=True)
class Silence:
    """Counts how many checks in a row found no new message of a process."""

    heard: float
    """The time of the process's last message, as of the latest check."""
    looks: int = 0

    def hangs(self, heard: float, *, listening: bool) -> bool:
        """Check the time of the process's last message; return whether the process hangs.

        A process that is not `listening` yet sends no messages, so it never counts as hanging.
        """
        self.looks = self.looks + 1 if listening and heard == self.heard else 0
        self.heard = heard
        return self.looks >= LOOKS
