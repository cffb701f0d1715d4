"""Unfetched plans: each plan keeps all its tables as they were at planning."""

import threading
import time
from collections import deque

from flightllm.flight.statements import FlightStatement


class PlannedStatements:
    """The statements planned within the last `seconds`. Safe to use from several threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._young: deque[tuple[float, FlightStatement]] = deque()

    def add(self, statement: FlightStatement) -> None:
        """Record a statement that was planned just now."""
        with self._lock:
            self._young.append((time.monotonic(), statement))

    def sweep(self) -> None:
        """Drop the plans of older statements that nobody has fetched; a fetch plans them again."""
        horizon, old = time.monotonic() - self._seconds, list[FlightStatement]()
        with self._lock:
            while self._young and self._young[0][0] <= horizon:
                old.append(self._young.popleft()[1])
        for statement in old:
            if statement.parts == 1:  # parts share one plan, and a part can be in use
                statement.drop()
