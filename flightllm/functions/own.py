"""A function that only rewritten texts call."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from datafusion import ScalarUDF

OWN_PREFIX: Final = "__"
"""The first letters of the functions that only the server's own texts call; lists of functions leave these out."""


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

        return udf(self.run, list(self.arguments), self.output, "immutable", self.name)
