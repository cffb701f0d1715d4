"""Batches open while the limits allow it."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flightllm.llm.cost import Work
from flightllm.operators.batch_window import BatchWindow
from flightllm.operators.batches import PromptBatch
from flightllm.operators.limit_tracker import LimitTracker
from flightllm.operators.pending_prompt import OpenBatch
from flightllm.operators.ranking import Ranking, all_at_once
from flightllm.plan.stages import BoundStep, Condition

_, NOTHING_TO_LEARN = all_at_once(1)


def batches(count: int, tuples: int = 512) -> Iterator[PromptBatch]:
    """Make batches of so many tuples, one row each."""
    texts = [str(number) for number in range(tuples)]
    rows = pa.RecordBatch.from_arrays([pa.array(texts)], ["a"])
    return (PromptBatch(rows, np.arange(tuples), [(text,) for text in texts]) for _ in range(count))


def opened(window: BatchWindow) -> list[OpenBatch]:
    """Open as many batches as the window allows."""
    found = []
    while window.can_open() and (one := window.open_next()) is not None:
        found.append(one)
    return found


def test_open_tuples() -> None:
    """At most 4,096 tuples are open, or four windows of the engine if these are more."""
    tracker = LimitTracker()
    assert len(opened(BatchWindow(batches(100), 8, tracker, NOTHING_TO_LEARN))) == 8
    assert len(opened(BatchWindow(batches(100), 2_048, tracker, NOTHING_TO_LEARN))) == 16


def test_finished() -> None:
    """Eight finished batches stop the next one until the consumer takes one; all batches come out in the end."""
    window = BatchWindow(batches(20), 8, LimitTracker(), NOTHING_TO_LEARN)
    taken = 0
    while not window.is_done:
        for one in opened(window):
            window.finish(one)
            assert one.finished
        while window.has_finished:
            window.take_finished()
            taken += 1
    assert taken == 20


def test_limit() -> None:
    """Under a LIMIT as many batches open as the tracker needs tuples, and none while one waits for the consumer."""
    window = BatchWindow(batches(20, 16), 8, LimitTracker(20), NOTHING_TO_LEARN)
    first = opened(window)
    assert len(first) == 2  # 30 tuples: three quarters of those needed if half of them pass
    window.finish(first[0])
    assert not window.can_open()
    window.take_finished()
    assert window.can_open()


def test_filters_to_rank() -> None:
    """With several filters the first batch goes alone, as it shows which filter is best."""
    condition = Condition((0,), "t", pa.schema([]), None)
    steps = [BoundStep(((call,),), condition, frozenset()) for call in range(2)]
    window = BatchWindow(batches(20), 8, LimitTracker(), Ranking(steps, [Work(), Work()], lambda _: 1.0))
    first = opened(window)
    assert len(first) == 1
    window.finish(first[0])
    assert len(opened(window)) > 1
