"""What the start of a prompt has in common with the prompts sent before and after it."""

from bisect import bisect_left

_FIRST_STEP = 4


class Neighbours:
    """Follows the prompts of one pass in the order in which they are sent."""

    def __init__(self) -> None:
        self._current = ""
        self._following: str | None = None
        self._before, self._ahead = 0, 0
        """How much the current prompt shares with the one before it, and with the following one."""

    def shared(self, prompt: str, following: str | None) -> tuple[int, int | None]:
        """Return how many characters at a prompt's start its neighbours have too, and how many the following one.

        The neighbours are the one before it and the one `following`, if that is known already. Prompts are sent in an
        order in which those that begin alike are together: later ones share no more than the following one does. A
        prompt that was held back may be asked about again.
        """
        if prompt != self._current:
            known = prompt == self._following
            self._before = self._ahead if known else shared_start(self._current, prompt, self._before)
            self._current, self._following, self._ahead = prompt, None, 0
        if following is not None and following != self._following:
            self._following, self._ahead = following, shared_start(prompt, following, self._before)
        return max(self._before, self._ahead), None if following is None else self._ahead


def shared_start(left: str, right: str, guess: int = 0) -> int:
    """Return how many characters two texts have in common at their start.

    A `guess` at or a little below the answer saves most of the work: prompts of one call share much the same start.
    Steps that double find a stretch with the first difference, and bisection finds the difference in this stretch.
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
