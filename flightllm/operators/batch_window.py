"""Admission: how many batches of one pass are open at once."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from flightllm.operators.batches import PromptBatch
from flightllm.operators.limit_tracker import LimitTracker
from flightllm.operators.pending_prompt import OpenBatch
from flightllm.operators.ranking import Ranking

_MOST_FINISHED: Final = 8
"""Finished batches that can wait for the consumer. Without this limit, cached answers would fill the memory."""
_MOST_TUPLES: Final = 4_096
_MOST_WINDOWS: Final = 4
"""The most open distinct tuples: `_MOST_TUPLES`, or `_MOST_WINDOWS` times the engine's window if that is more."""
_MOST_BYTES: Final = 64 << 20
_FEWEST_WINDOWS: Final = 2
"""Above `_MOST_BYTES`, a batch opens only if fewer than `_FEWEST_WINDOWS` windows of tuples are open."""


class BatchWindow:
    """Open the next batch while the limits allow it, and keep finished batches for the consumer. One thread uses it.

    `window` is the number of prompts that the engine keeps in flight on all replicas. Example with a window of 8: a
    batch of 512 tuples opens as long as fewer than 4,096 tuples are open.
    """

    def __init__(self, batches: Iterator[PromptBatch], window: int, tracker: LimitTracker, ranking: Ranking) -> None:
        self._batches = batches
        self._window = window
        self._tracker = tracker
        self._ranking = ranking
        self._open = self._open_tuples = self._open_bytes = 0
        self._finished: deque[PromptBatch] = deque()
        self._any_finished = False
        self._exhausted = False

    @property
    def is_done(self) -> bool:
        """Return whether every batch was opened, finished and taken."""
        return self._exhausted and not self._open and not self._finished

    @property
    def has_finished(self) -> bool:
        """Return whether a finished batch waits for the consumer."""
        return bool(self._finished)

    def can_open(self) -> bool:
        """Return whether to open another batch now."""
        if self._exhausted or len(self._finished) >= _MOST_FINISHED:
            return False
        # Under a LIMIT, the consumer must see what is finished before the tracker can say how many more it needs.
        if self._tracker.limited and (self._finished or not self._tracker.trials_needed(self._open_tuples)):
            return False
        if self._ranking.learns and self._open and not self._any_finished:
            return False  # the first batch shows which filter to try first
        if self._open_bytes >= _MOST_BYTES and self._open_tuples >= _FEWEST_WINDOWS * self._window:
            return False
        return self._open_tuples < max(_MOST_TUPLES, _MOST_WINDOWS * self._window)

    def open_next(self) -> OpenBatch | None:
        """Open the next batch; None after the last one."""
        batch = next(self._batches, None)
        if batch is None:
            self._exhausted = True
            return None
        self._open += 1
        self._open_tuples += len(batch.tuples)
        self._open_bytes += batch.rows.nbytes
        return OpenBatch(batch)

    def finish(self, open_batch: OpenBatch) -> None:
        """Close a batch that went through all steps, and keep it for the consumer."""
        batch = open_batch.batch
        open_batch.finished = self._any_finished = True
        self._open -= 1
        self._open_tuples -= len(batch.tuples)
        self._open_bytes -= batch.rows.nbytes
        self._finished.append(batch)

    def take_finished(self) -> PromptBatch:
        """Return the batch that finished first, and forget it."""
        return self._finished.popleft()
