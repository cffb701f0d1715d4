"""The tries of a prediction: each draws other answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from flightllm.datafusion.run import Batches
from flightllm.execution.estimate import DryRun, Run
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.plan.figures import COUNTED, CallFigures, Figures


@dataclass(frozen=True)
class Drawn(DryRun):
    """A prediction whose calls depend on the drawn answers as `calls_of` says."""

    calls_of: Callable[[float], int] = lambda _: 1

    def _once(self, run: Run, cancelled: Callable[[], bool], deadline: float, turn: float) -> Figures:
        del run, cancelled, deadline
        counts = dict.fromkeys(COUNTED, 0) | {"calls": self.calls_of(turn)}
        return Figures(1, (CallFigures("ai", "ai_filter", "f", counts, [], False, {}, "model", None),))


def nothing(_: QueryRecord, __: Mapping[str, ModelBinding]) -> Batches:
    """Run nothing."""
    raise AssertionError


@pytest.mark.parametrize(
    ("calls_of", "calls"),
    [(lambda _: 20, 20), (lambda turn: 12 if turn == 0.5 else 20, 18), (lambda turn: 20 if turn < 0.5 else 12, 16)],
)
def test_tries(calls_of: Callable[[float], int], calls: int) -> None:
    """The second try has the opposite answers: if they change nothing, no further try is needed."""
    turns: list[float] = []

    def noted(turn: float) -> int:
        turns.append(turn)
        return calls_of(turn)

    found = Drawn((), {}, None, {}, {}, "local", calls_of=noted).figures(nothing, lambda: False)
    assert found.work.calls == calls
    assert turns[:2] == [0.0, 0.5]
    assert len(turns) == (2 if calls == 20 else 4)
