"""Logistic regressions, which filters and proxies fit to labels."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import RLock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import MissingExtraError

_Floats = NDArray[np.float64]
_FITTING: Final = RLock()
"""Held during a fit. Small matrices are multiplied 50 times faster by one thread than by several, and the number of
threads is a setting of the process."""


def check_installed(what: str) -> None:
    """Check that the packages of a fit are there; `what` needs them.

    Raises:
        MissingExtraError: the extra `learn` is not installed.
    """
    if find_spec("sklearn") is None or find_spec("threadpoolctl") is None:
        raise MissingExtraError(what, "learn")


@contextmanager
def one_thread(what: str) -> Iterator[None]:
    """Let numpy compute in one thread inside of the block; `what` needs the packages.

    Raises:
        MissingExtraError: the extra `learn` is not installed.
    """
    try:
        import sklearn.linear_model  # noqa: F401 - the block imports parts of it
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError(what, "learn") from error
    with _FITTING, threadpool_limits(1, "blas"):
        yield


def regression(
    inputs: NDArray[Any],
    labels: NDArray[np.int64],
    strength: float,
    *,
    most_steps: int,
    tolerance: float,
    balanced: bool = False,
) -> Any:
    """Fit scikit-learn's logistic regression, inside of `one_thread`. `strength` is the inverse penalty.

    With `balanced`, all labels weigh the same, however frequent they are.
    """
    from sklearn.linear_model import LogisticRegression

    weight = "balanced" if balanced else None
    model = LogisticRegression(C=strength, class_weight=weight, max_iter=most_steps, tol=tolerance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that needs more steps is good enough
        return model.fit(np.asarray(inputs, np.float64), labels)


def lines(model: Any) -> tuple[_Floats, _Floats]:
    """Return weights and intercepts, with a line for each label; scikit-learn has one line for two labels."""
    weights, intercepts = np.asarray(model.coef_, np.float64), np.asarray(model.intercept_, np.float64)
    if len(weights) > 1:
        return weights, intercepts
    return np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
