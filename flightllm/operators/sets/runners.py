"""The runners of calls over sets, by the method that a function names in its `SetAnswer`."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.functions.over_set import OverSet
from flightllm.operators.sets.base import SetRunner, SetStreamer

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "agg": "agg",
        "approximate": "approximate",
        "cluster": "cluster",
        "compare": "compare",
        "dedup": "dedup",
        "rank": "rank",
        "topic": "topic",
    }
)
"""By method, the module of this folder that has the function `answers`, which is the runner."""


def streamer_of(over: OverSet[AICall]) -> SetStreamer | None:
    """Return the runner that yields answers that are not final, where the call wants them."""
    if not dict(over.options).get("stream"):
        return None
    return cast("SetStreamer", import_module(f"{__package__}.{_MODULES[over.method]}").waves)


def runner_of(method: str) -> SetRunner:
    """Return the runner of a method.

    Raises:
        InternalError: there is no such method.
    """
    if method not in _MODULES:
        raise InternalError(f"no runner answers the method {method!r}")
    module = import_module(f"{__package__}.{_MODULES[method]}")
    return cast("SetRunner", module.answers)
