"""Ask the model in which order some records come: one prompt for each pair or window of records."""

import random
from collections.abc import Sequence
from typing import Any, Final

from flightllm.functions.call import AICall
from flightllm.functions.over_set import OverSet
from flightllm.functions.ranking import FIRST, PAIR, PAIR_WINDOW, WINDOW
from flightllm.operators.sets.asker import Asker, Reply
from flightllm.operators.sets.rank_forecast import SimulatedModel
from flightllm.operators.sets.rank_select import Window

_INDENT: Final = "\n    "
"""Begins the further lines of a record, so that no line of a text looks like the number of the next record."""
_UNUSABLE: Final = "the answer lacks most of the records' numbers"


class Records:
    """Orders windows of records by the model's answers. In a dry run, a simulated model orders them."""

    def __init__(self, texts: Sequence[str], asker: Asker, over: OverSet[AICall]) -> None:
        """`texts` are the records as prompts show them."""
        self._texts = texts
        self._asker = asker
        self._over = over
        self.error: str | None = None
        """The error of the last window without an answer."""
        self._places = random.Random(0).sample(range(len(texts)), len(texts)) if asker.is_dry else []  # noqa: S311
        self._simulated = SimulatedModel()

    def __call__(self, windows: Sequence[Window]) -> list[Sequence[int] | None]:
        """Return the order of each window; None where the model gave no usable answer."""
        guessed = self._guessed()
        found: list[Sequence[int] | None] = [None] * len(windows)
        for name in (PAIR, WINDOW):
            places = [place for place, one in enumerate(windows) if (len(one) == PAIR_WINDOW) == (name == PAIR)]
            if not places:
                continue
            prompts = [self._prompt(windows[place]) for place in places]
            for place, reply in zip(places, self._asker.ask(self._over.questions[name], prompts), strict=True):
                found[place] = self._order(windows[place], reply)
        if self._guessed() == guessed:
            return found
        return self._foreseen(windows)

    def _prompt(self, window: Window) -> tuple[str, ...]:
        texts = [self._texts[one] for one in window]
        if len(texts) == PAIR_WINDOW:
            return tuple(texts)
        lines = (f"[{number}] {_INDENT.join(text.splitlines())}" for number, text in enumerate(texts, start=1))
        return ("\n".join(lines),)

    def _order(self, window: Window, reply: Reply) -> Sequence[int] | None:
        """Return the order of a window that a reply gives. Up to half of the records can be missing: they come last."""
        if reply.value is None:
            self.error = reply.error or self.error
            return None
        if len(window) == PAIR_WINDOW:
            return window if reply.value == FIRST else window[::-1]
        listed = dict.fromkeys(_places(reply.value, len(window)))
        if 2 * len(listed) < len(window):
            self.error = _UNUSABLE
            return None
        return [window[place] for place in dict.fromkeys([*listed, *range(len(window))])]

    def _guessed(self) -> int:
        """Return how many answers a dry run has made up so far."""
        return self._asker.binding(self._over.questions[PAIR]).guessed()

    def _foreseen(self, windows: Sequence[Window]) -> list[Sequence[int] | None]:
        """Return orders that agree with one another about as well as a model's; random answers would not."""
        record = {place: number for number, place in enumerate(self._places)}
        orders = self._simulated([tuple(self._places[one] for one in window) for window in windows])
        return [None if order is None else [record[place] for place in order] for order in orders]


def _places(listed: Any, count: int) -> list[int]:
    """Return the places of the records with the listed numbers; other numbers are left out."""
    return [number - 1 for number in listed if isinstance(number, int) and 1 <= number <= count]
