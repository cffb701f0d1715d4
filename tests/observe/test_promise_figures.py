"""The figures of a promise: their names and what they are where no proxy decides."""

import pyarrow as pa

from flightllm.observe.promise_figures import PromiseFigures, promise_figures
from flightllm.observe.query_log import _PROMISE


def test_each_figure_is_a_column() -> None:
    """The table `system.ai_calls` has each figure, and no other."""
    assert {field.name for field in _PROMISE} == set(PromiseFigures.__annotations__)


def test_figures_without_a_proxy() -> None:
    """Figures that a way to keep a promise does not give say that no proxy decided, and that nothing is certified."""
    found = promise_figures(targets="recall 0.9", rows=5, held=False, precision=0.95)
    assert (found["proxy"], found["recall"], found["precision"], found["delta"]) == ("none", None, 0.95, 0.0)
    assert (found["errors"], found["taught_prompts"], found["useless"]) == (0, 0, False)
    assert "accepted" not in found
    assert pa.array([found], _PROMISE)[0].as_py()["rows"] == 5
