"""Connections wait for the next statement, a few of them and for a while."""

from flightllm.attached.idle import IdleConnections


class _Connection:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_connection_is_used_again() -> None:
    """A connection that was given back serves the next statement, unless it waited too long."""
    now = [0.0]
    idle = IdleConnections(_Connection, lambda: now[0])
    first, used = idle.take()
    assert not used
    idle.give(first)
    assert idle.take() == (first, True)
    idle.give(first)
    now[0] = 100.0
    second, used = idle.take()
    assert not used
    assert second is not first
    assert first.closed


def test_few_connections_wait() -> None:
    """Connections beyond the limit are closed, and so are all at the end."""
    idle = IdleConnections(_Connection)
    many = [idle.take()[0] for _ in range(6)]
    for one in many:
        idle.give(one)
    assert [one.closed for one in many] == [False] * 4 + [True] * 2
    idle.close()
    assert all(one.closed for one in many)
    assert not idle.take()[1]
