"""SQL with language-model calls as relational operators: over Arrow Flight SQL, or in a Python program.

`connect` opens a database in this process, or connects to a server. Names are loaded when they are first used, because
the command line and other programs need only some of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flightllm.config import Config
    from flightllm.connection.asynchronous import AsyncConnection, AsyncResult, connect_async
    from flightllm.connection.connect import connect
    from flightllm.connection.connection import Connection
    from flightllm.connection.cost import Cost
    from flightllm.connection.result import Result
    from flightllm.errors import (
        BudgetExceededError,
        CancelledError,
        ConfigError,
        FlightLLMError,
        InvalidInputError,
        LimitExceededError,
        NotFoundError,
        PermissionDeniedError,
        SqlError,
        UnknownTableError,
    )

__version__ = "0.2.0"
__all__ = [
    "AsyncConnection",
    "AsyncResult",
    "BudgetExceededError",
    "CancelledError",
    "Config",
    "ConfigError",
    "Connection",
    "Cost",
    "FlightLLMError",
    "InvalidInputError",
    "LimitExceededError",
    "NotFoundError",
    "PermissionDeniedError",
    "Result",
    "SqlError",
    "UnknownTableError",
    "__version__",
    "connect",
    "connect_async",
]
_PLACES = {
    "AsyncConnection": "flightllm.connection.asynchronous",
    "AsyncResult": "flightllm.connection.asynchronous",
    "Config": "flightllm.config",
    "Connection": "flightllm.connection.connection",
    "Cost": "flightllm.connection.cost",
    "FlightLLMError": "flightllm.errors",
    "BudgetExceededError": "flightllm.errors",
    "CancelledError": "flightllm.errors",
    "ConfigError": "flightllm.errors",
    "InvalidInputError": "flightllm.errors",
    "LimitExceededError": "flightllm.errors",
    "NotFoundError": "flightllm.errors",
    "PermissionDeniedError": "flightllm.errors",
    "SqlError": "flightllm.errors",
    "UnknownTableError": "flightllm.errors",
    "Result": "flightllm.connection.result",
    "connect": "flightllm.connection.connect",
    "connect_async": "flightllm.connection.asynchronous",
    "load_ipython_extension": "flightllm.connection.magic",
}
"""The module of each name that is loaded when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'flightllm' has no attribute {name!r}")
    from importlib import import_module

    _register_accessors()
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def _register_accessors() -> None:
    """Give `ai` to the frames of libraries that the program has imported; the first use of a name does so again."""
    import sys
    from importlib import import_module

    if "pandas" in sys.modules or "polars" in sys.modules:
        try:
            accessor = import_module("flightllm.connection.accessor")
        except ImportError:  # the distribution flightllm-kv has no connections
            return
        accessor.register_accessors()


_register_accessors()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
