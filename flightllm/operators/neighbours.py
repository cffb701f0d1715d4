"""What the start of a prompt has in common with the prompts sent before and after it."""

from bisect import bisect_left


class Neighbours:
    """Follows the prompts of one pass in the order in which they are sent."""

    def __init__(self) -> None:
        self._before = self._current = ""

    def recurs(self, prompt: str, *following: str) -> int:
        """Return how many characters at a prompt's start the one before it or those `following` have too.

        A prompt that was held back may be asked about again.
        """
        if prompt != self._current:
            self._before, self._current = self._current, prompt
        return max(shared_start(prompt, other) for other in (self._before, *following))


def shared_start(left: str, right: str) -> int:
    """Return how many characters two texts have in common at their start."""
    most = min(len(left), len(right))
    return bisect_left(range(1, most + 1), x=True, key=lambda length: left[:length] != right[:length])
