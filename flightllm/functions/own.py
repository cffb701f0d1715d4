"""A function that only rewritten texts call."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import structlog

from flightllm.errors import FlightLLMError, SqlError

if TYPE_CHECKING:
    from datafusion import ScalarUDF

OWN_PREFIX: Final = "__"
"""The first letters of the functions that only the server's own texts call; lists of functions leave these out."""

_TOLD: Final = 200
"""The number of characters of Arrow's error that our error has."""
_log = structlog.get_logger(__name__)


class OwnFunction(NamedTuple):
    """A function over columns, for what DataFusion's own functions cannot do; each text of the server can call it."""

    run: Callable[..., pa.Array]
    """Takes and returns arrays of the same length, one value a row."""
    arguments: tuple[pa.DataType, ...]
    output: pa.DataType
    name: str
    """Its name in SQL, which begins with the prefix."""

    def registered(self) -> "ScalarUDF":
        """Return the function as DataFusion registers it."""
        from datafusion import udf  # here, because clients import this module and need no DataFusion

        return udf(self.checked, list(self.arguments), self.output, "immutable", self.name)

    def checked(self, *arguments: pa.Array) -> pa.Array:
        """Return the values of rows.

        Raises:
            SqlError: a value does not fit the function; the error has no words of Python.
        """
        try:
            return self.run(*arguments)
        except (FlightLLMError, MemoryError):
            raise
        except Exception as error:  # each other error is a value of which the function did not think
            at = _place_of(error)
            _log.warning("function failed", function=self.name, error=type(error).__name__, at=at)
            told = f": {str(error).splitlines()[0][:_TOLD]}" if isinstance(error, pa.ArrowInvalid) else ""
            raise SqlError(
                f"the function {self.name.removeprefix(OWN_PREFIX)} of the server cannot compute with a value{told}:"
                " leave this value out with WHERE or CASE, or write it in another form"
            ) from error


def _place_of(error: Exception) -> str:
    """Return the name of the function that raised an error."""
    at: TracebackType | None = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else at.tb_frame.f_code.co_name
