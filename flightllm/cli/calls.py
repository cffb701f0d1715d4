"""The model calls of a statement, for people: a line while they run, and one afterwards."""

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from flightllm.client import Client, Progress
from flightllm.common.amounts import money
from flightllm.connection.cost import may_call

_POLL_SECONDS: Final = 0.3
_BAR: Final = 24
"""The characters of the bar."""
_CLEAR: Final = "\r\x1b[2K"
"""Go to the start of the line, and delete the line."""


class CallsBar:
    """One line on standard error with a statement's model calls: how many are done, their cost, and the time left.

    The line is there only while calls run, and only on a terminal. `hide` removes it for good; call it before the first
    line of a result.
    """

    def __init__(self, client: Client, sql: str) -> None:
        self._client = client
        self._finds_changes = may_call(sql)
        self._hidden = Event()
        self._watcher = Thread(target=self._watch, daemon=True)
        self._begun: tuple[float, int] | None = None
        """The time and the finished calls when calls were seen first."""

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Remove the line, and show none any more. Idempotent."""
        self._hidden.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def hidden_before(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wait for the first batch, hide the line, and return all batches."""
        rest = iter(batches)
        first = [batch for batch in [next(rest, None)] if batch is not None]
        self.hide()
        return chain(first, rest)

    def _watch(self) -> None:
        shown = ""
        while not self._hidden.wait(_POLL_SECONDS):
            asks = self._client.query_id is not None or self._finds_changes
            progress = self._client.progress() if asks else None
            line = "" if progress is None else self._line(progress)
            if line != shown:
                _write(_CLEAR + line)
                shown = line
        if shown:
            _write(_CLEAR)

    def _line(self, progress: Progress) -> str:
        """Return the line for some progress; empty if no call runs."""
        done, total, now = progress.done, progress.total, time.monotonic()
        if done >= total:
            return ""
        begun, before = self._begun = self._begun or (now, done)
        filled = _BAR * done // total
        parts = [f"model calls {'█' * filled}{'░' * (_BAR - filled)} {done:,}/{total:,}"]
        if progress.tokens:
            parts.append(f"{progress.tokens:,} tokens")
        if progress.cost is not None:
            parts.append(money(progress.cost))
        if done > before:
            minutes, seconds = divmod(round((total - done) * (now - begun) / (done - before)), 60)
            parts.append(f"{minutes}:{seconds:02} left")
        width = shutil.get_terminal_size().columns - 1  # a full line can wrap
        return "  ".join(parts)[:width]


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
