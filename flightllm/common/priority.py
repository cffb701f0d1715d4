"""Priorities of prompts where several queries share an engine: short queries come first."""

from typing import Final

INTERACTIVE_PROMPTS: Final = 64
"""A query counts as interactive until it has sent this many prompts; after that it counts as bulk work."""
INTERACTIVE, BULK = 0, 1


class Precedence:
    """The priorities of one query's prompts, in the order in which they are sent.

    `kind` is the setting `flightllm.priority`. `auto` puts a query's first `INTERACTIVE_PROMPTS` prompts before the
    later prompts of other queries, so that a short query is answered beside a long one. `interactive` and `bulk` give
    all prompts one priority. Several threads can use it without a lock: a prompt that is not counted does no harm.
    """

    def __init__(self, kind: str = "auto") -> None:
        self._kind = kind
        self._sent = 0

    @property
    def now(self) -> int:
        """Return the priority of a prompt that is sent now; prompts with lower numbers go first."""
        if self._kind == "auto":
            return INTERACTIVE if self._sent < INTERACTIVE_PROMPTS else BULK
        return INTERACTIVE if self._kind == "interactive" else BULK

    def sent(self) -> None:
        """Count a prompt as sent."""
        self._sent += 1
