"""What is refused because of a limit, and how that is said and counted."""

import time

import pytest

from flightllm.common.limits import LIMITS, Refusals, TimeLimit, busy, over_limit
from flightllm.config import HttpConfig, LimitsConfig, TracingConfig
from flightllm.errors import BusyError, ConfigError, LimitExceededError, SqlError, StatementTimeoutError


def test_errors_say_which_limit_and_how_to_raise_it() -> None:
    """The message has what was found, the key, its value, what else to do, and where the limit is."""
    error = over_limit("sql_bytes", 1_000, "the text has 2,000 bytes", "write less")
    assert isinstance(error, LimitExceededError)
    assert str(error) == (
        "the text has 2,000 bytes; [limits] sql_bytes = 1,000 is the most: write less,"
        " or raise it in the server's configuration"
    )
    assert (error.limit, busy("sessions", 2, "all are in use").limit) == ("sql_bytes", "sessions")
    assert isinstance(busy("sessions", 2, "all are in use"), BusyError)


def test_the_smaller_time_holds() -> None:
    """A session may lower its time, not raise it; the error names what held."""
    for server, session, seconds, own in (
        (None, None, None, False),
        (5.0, None, 5.0, False),
        (None, 3.0, 3.0, True),
        (5.0, 3.0, 3.0, True),
        (5.0, 30.0, 5.0, False),
    ):
        limit = TimeLimit.of(server, session)
        assert (limit.seconds, limit.own) == (seconds, own)
    assert not TimeLimit().start().over
    assert not TimeLimit(1_000.0).start().over
    deadline = TimeLimit(0.0, own=True).start()
    assert deadline.over
    error = deadline.error()
    assert isinstance(error, StatementTimeoutError)
    assert (error.limit, "SET flightllm.timeout to more" in str(error)) == ("timeout", True)
    before, at, after = time.monotonic(), TimeLimit(0.5).start().at, time.monotonic()
    assert at is not None
    assert before + 0.5 <= at <= after + 0.5


def test_refusals_are_counted_by_limit() -> None:
    """Every limit has a count from the start; errors about something else are none."""
    refusals = Refusals()
    assert refusals.counts() == dict.fromkeys(LIMITS, 0)
    for error in (over_limit("sql_terms", 1, "x", "y"), SqlError("no"), ValueError("no")):
        refusals.note(error)
    assert {name: count for name, count in refusals.counts().items() if count} == {"sql_terms": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LimitsConfig(statement_seconds=0.0),
            r"\[limits\] statement_seconds: expected a number above 0, got 0",
        ),
        (lambda: LimitsConfig(queue_seconds=float("inf")), r"\[limits\] queue_seconds: expected a number above 0"),
        (lambda: LimitsConfig(result_bytes=0), r"\[limits\] result_bytes: expected at least 1, got 0"),
        (lambda: HttpConfig("nowhere"), r"\[http\] listen: expected HOST:PORT, got 'nowhere'"),
        (lambda: TracingConfig("nowhere"), r"\[tracing\] endpoint: expected an address such as"),
    ],
)
def test_wrong_settings(make: object, message: str) -> None:
    """A wrong value is refused at load, with its key."""
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


def test_where_metrics_are_shown() -> None:
    """On a loopback address, unless the configuration says otherwise."""
    shown = {"127.0.0.1:1": True, "localhost:1": True, "[::1]:1": True, "0.0.0.0:1": False, "example.org:1": False}
    assert {listen: HttpConfig(listen).shows_metrics for listen in shown} == shown
    assert HttpConfig("0.0.0.0:1", metrics=True).shows_metrics
    assert not HttpConfig("127.0.0.1:1", metrics=False).shows_metrics
    assert not HttpConfig().shows_metrics
