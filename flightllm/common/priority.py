"""Which prompts go first where several queries ask one engine: those of a query that asks little."""

from typing import Final

INTERACTIVE_PROMPTS: Final = 64
"""A query counts as somebody's who waits for it until it has sent so many prompts; after that as one in bulk."""
INTERACTIVE, BULK = 0, 1


class Precedence:
    """The priorities of one query's prompts, in the order in which they are sent.

    `kind` is the setting `flightllm.priority`: `auto` puts the first `INTERACTIVE_PROMPTS` before other queries' later
    ones, so that a short query is answered beside a long one; the others say at once which it is. Several threads may
    use it: a prompt that one of them does not count does no harm.
    """

    def __init__(self, kind: str = "auto") -> None:
        self._kind = kind
        self._sent = 0

    @property
    def now(self) -> int:
        """Return the priority of a prompt that is sent now; lower ones go first."""
        if self._kind == "auto":
            return INTERACTIVE if self._sent < INTERACTIVE_PROMPTS else BULK
        return INTERACTIVE if self._kind == "interactive" else BULK

    def sent(self) -> None:
        """Count a prompt as sent."""
        self._sent += 1
