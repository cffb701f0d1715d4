"""Plans that prepared statements keep for their first execution, bounded in number and in age."""

import threading
import time
from collections import deque

from flightllm.execution.kept_plans import KeptPlan


class KeptPlans:
    """The plans kept within the last `seconds`, at most `most`. Each plan keeps its tables. Thread-safe."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._young: deque[tuple[float, KeptPlan]] = deque()

    def add(self, plan: KeptPlan | None) -> None:
        """Keep a plan, if given; beyond `most` plans the oldest is dropped."""
        if plan is None:
            return
        with self._lock:
            self._young.append((time.monotonic(), plan))
            old = [self._young.popleft()[1] for _ in range(len(self._young) - self._most)]
        for one in old:
            one.drop()

    def sweep(self) -> None:
        """Drop the plans that are too old."""
        horizon, old = time.monotonic() - self._seconds, list[KeptPlan]()
        with self._lock:
            while self._young and self._young[0][0] <= horizon:
                old.append(self._young.popleft()[1])
        for one in old:
            one.drop()
