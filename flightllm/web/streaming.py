"""Send a statement's events as lines of JSON while it runs; a browser that leaves stops the statement."""

import asyncio
from collections.abc import AsyncIterator

from anyio import CapacityLimiter, to_thread

from flightllm.common.text import json_text
from flightllm.web.calls import WebCall
from flightllm.web.statements import Event, StatementRun

_PROGRESS_SECONDS = 1.0


async def lines(run: StatementRun, call: WebCall, limiter: CapacityLimiter) -> AsyncIterator[bytes]:
    """Yield a line for each event, and a progress line for each second without events; `limiter` gives threads."""
    waiting: asyncio.Task[Event | None] | None = None
    try:
        while True:
            waiting = asyncio.create_task(to_thread.run_sync(next, run, None, limiter=limiter))
            while not (await asyncio.wait({waiting}, timeout=_PROGRESS_SECONDS))[0]:
                yield _line(run.progress() or {"event": "progress", "status": "planning"})
            event = waiting.result()
            if event is None:
                return
            yield _line(event)
    finally:
        call.leave()
        if waiting is not None:
            waiting.add_done_callback(lambda _: run.close())


def _line(event: Event) -> bytes:
    return f"{json_text(event)}\n".encode()
