"""The connections of callers: opened once, and closed when nobody uses them."""

from contextlib import closing
from typing import Any

from flightllm.mcp.callers import Caller, Callers
from tests.servers import await_true


class _Client:
    """Stands for a connection to a server."""

    def __init__(self) -> None:
        self.closed = False

    def query(self, _sql: str) -> tuple[None, list[Any]]:
        """Return no rows."""
        return None, []

    def close(self) -> None:
        """Note the end."""
        self.closed = True


def test_idle_connections_are_closed() -> None:
    """A connection in use stays open. One without use is closed, though no further caller comes."""
    made: list[_Client] = []

    def connect(_authorization: str) -> Any:
        made.append(_Client())
        return made[-1]

    with closing(Callers(connect, idle_seconds=0.02)) as callers:
        with callers.client(Caller("busy")):
            with callers.client(Caller("idle")):
                pass
            await_true(lambda: made[1].closed, 20)
            assert not made[0].closed
        await_true(lambda: made[0].closed, 20)
        with callers.client(Caller("idle")):
            assert len(made) == 3
        await_true(lambda: made[2].closed, 20)
