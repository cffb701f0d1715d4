"""A query's part of an engine beside other queries."""

from typing import cast

from flightllm.engines.shares import Shares
from flightllm.llm.engine import Engine
from flightllm.operators.fair_part import fair


class _Shared:
    """The part of an engine that counts its callers."""

    def __init__(self) -> None:
        self.shares = Shares(8)

    @property
    def callers(self) -> int:
        """Return how many callers have a share."""
        return self.shares.callers


def test_each_running_call_takes_an_equal_part() -> None:
    """Beside one call and then two, a new one has a half and a third; at their end it has the whole."""
    shared = _Shared()
    engine = cast("Engine", shared)
    assert fair(900, engine) == 900
    open_shares = []
    for callers in (1, 2):
        open_shares.append(shared.shares.open(lambda: None))
        assert fair(900, engine) == 900 // (callers + 1)
    for share in open_shares:
        share.close()
    assert fair(900, engine) == 900


def test_there_is_always_a_part() -> None:
    """A part is never nothing, and an unknown size stays unknown."""
    shared = _Shared()
    shared.shares.open(lambda: None)
    assert fair(1, cast("Engine", shared)) == 1
    assert fair(None, cast("Engine", shared)) is None


def test_an_engine_without_a_count_is_ours() -> None:
    """An engine that does not count its callers counts as free."""
    assert fair(5, cast("Engine", object())) == 5
