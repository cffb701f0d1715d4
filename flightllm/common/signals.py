"""Signals that stop a server in this process."""

import signal
import threading
from types import FrameType


def stop_by_signals() -> threading.Event:
    """Return the event that SIGTERM and SIGINT set; a second signal exits at once. Call it in the main thread."""
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
