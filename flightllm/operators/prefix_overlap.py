"""Find how many characters the start of a prompt shares with the prompts sent before and after it."""

from bisect import bisect_left

_FIRST_STEP = 4


class PrefixOverlap:
    """The prompts of one pass, followed in the order in which they are sent."""

    def __init__(self) -> None:
        self._current = ""
        self._following: str | None = None
        self._before, self._ahead = 0, 0
        """Characters that the current prompt shares with the prompt before it, and with the following prompt."""

    def shared(self, prompt: str, following: str | None) -> tuple[int, int | None]:
        """Return how many leading characters a prompt shares with either neighbour, and with the following one.

        The neighbours are the prompt before it and the prompt `following`, if that is known already. Prompts are sent
        in an order that keeps common prefixes together: later prompts share no more than the following one does. The
        caller can ask again about a prompt that it held back.
        """
        if prompt != self._current:
            known = prompt == self._following
            self._before = self._ahead if known else shared_start(self._current, prompt, self._before)
            self._current, self._following, self._ahead = prompt, None, 0
        if following is not None and following != self._following:
            self._following, self._ahead = following, shared_start(prompt, following, self._before)
        return max(self._before, self._ahead), None if following is None else self._ahead


def shared_start(left: str, right: str, guess: int = 0) -> int:
    """Return how many leading characters two texts share.

    A `guess` at or a little below the answer saves most of the work: prompts of one call share about the same prefix.
    Doubling steps find a range with the first difference. Bisection then finds the difference in this range.
    """
    most = min(len(left), len(right))
    low = guess if guess <= most and left[:guess] == right[:guess] else 0
    step = _FIRST_STEP
    while left[low : low + step] == right[low : low + step]:
        low += step
        if low >= most:
            return most
        step *= 2
    high = min(low + step, most)
    return low + bisect_left(range(low + 1, high + 1), x=True, key=lambda end: left[low:end] != right[low:end])
