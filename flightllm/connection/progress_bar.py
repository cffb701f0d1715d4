"""A bar with the model calls of a statement, in terminals and notebooks."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from flightllm.client import Progress
from flightllm.common.amounts import money
from flightllm.common.stopping import check_wanted

_SECONDS = 0.3
"""The time between two looks at the work."""


class _Bar(Protocol):
    """A bar that is shown."""

    def show(self, done: int, total: int, note: str) -> None:
        """Show the number of calls."""

    def close(self) -> None:
        """Remove the bar."""


class CallsBar:
    """The bar of one statement; there is no bar before its first model call, nor with `shown` False."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._bar: _Bar | None = None
        self._next = time.monotonic() + _SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def look(self, progress: Callable[[], Progress | None]) -> None:
        """Show the work so far, if some time has passed since the last look.

        Raises:
            CancelledError: nobody waits for the statement any more; see `common.stopping`.
        """
        check_wanted()
        if not self._shown or time.monotonic() < self._next:
            return
        found = progress()
        self._next = time.monotonic() + _SECONDS
        if found is None or not found.total:
            return
        if self._bar is None:
            self._bar = _new_bar()
        note = f"{found.tokens:,} tokens" + ("" if found.cost is None else f", {money(found.cost)}")
        self._bar.show(found.done, found.total, note)

    def close(self) -> None:
        """Remove the bar. Idempotent."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def is_watched() -> bool:
    """Return whether a person sees a bar: standard error is a terminal, or a notebook runs this."""
    return in_notebook() or sys.stderr.isatty()


def in_notebook() -> bool:
    """Return whether a kernel of Jupyter runs this process."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if callable(get) else None
    return shell is not None and hasattr(shell, "kernel")


def _new_bar() -> _Bar:
    if in_notebook():
        try:
            return _Tqdm()
        except ImportError:  # the extra `notebook` is not installed
            pass
    return _Rich()


class _Tqdm:
    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(desc="model calls", leave=False)

    def show(self, done: int, total: int, note: str) -> None:
        self._bar.total = total
        self._bar.n = done
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Rich:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("model calls"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("")
        self._bar.start()

    def show(self, done: int, total: int, note: str) -> None:
        self._bar.update(self._task, completed=done, total=total, description=note)

    def close(self) -> None:
        self._bar.stop()
