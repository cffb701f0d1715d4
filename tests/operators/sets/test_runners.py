"""The runners of calls over sets."""

import pytest

from flightllm.errors import InternalError
from flightllm.operators.sets import agg
from flightllm.operators.sets.runners import _MODULES, runner_of


def test_each_method_has_a_runner() -> None:
    """Each method has a module with the function that answers."""
    assert runner_of("agg") is agg.answers
    assert all(callable(runner_of(method)) for method in _MODULES)


def test_unknown() -> None:
    """A method without a runner is a defect."""
    with pytest.raises(InternalError, match="no runner answers the method 'no'"):
        runner_of("no")
