"""Run DDL, DML and uploads exactly once, stopping when the client goes."""

import queue
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa

from flightllm.errors import CancelledError
from flightllm.flight.backend import Session

_POLL_SECONDS = 0.1


def run_update(
    session: Session, sql: str, parameters: pa.Table | None, settings: Mapping[str, str], gone: Callable[[], bool]
) -> int:
    """Run an update in a thread of its own and return the rows affected, -1 if unknown.

    `gone` is asked in the calling thread; once it says yes the update is cancelled.

    Raises:
        CancelledError: the client left before the end.
    """
    cancelled = threading.Event()
    outcome: queue.Queue[int | BaseException] = queue.Queue(1)

    def work() -> None:
        try:
            outcome.put(session.update(sql, parameters, settings, cancelled=cancelled))
        except BaseException as exc:  # noqa: BLE001 - raised again in the calling thread
            outcome.put(exc)

    threading.Thread(target=work, name="update", daemon=True).start()
    while True:
        try:
            result = outcome.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if gone():
                cancelled.set()
                raise CancelledError("the client cancelled the statement") from None
            continue
        if isinstance(result, BaseException):
            raise result
        return result
