"""The exact sums of lists: DataFusion's `array_sum` adds all numbers as doubles."""

from decimal import Context, Decimal, Inexact, localcontext
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS

EXACT_SUM, CHECKED_SUM = "__exact_sum", "__checked_sum"
"""The names of the functions in SQL."""
_DIGITS: Final = Context(prec=100, traps=[Inexact])
_EXACT: Final = ("Int", "UInt", "Decimal")
"""The first letters of the types whose sums must be exact."""


def exact_sums(values: pa.Array) -> pa.Array:
    """Return the text of the sum of each list of texts of numbers; NULLs do not count, and no numbers have NULL."""
    with localcontext(_DIGITS):
        return pa.array([_text(_sum(row)) for row in values.to_pylist()], pa.string())


def checked_sums(values: pa.Array, types: pa.Array) -> pa.Array:
    """Return the sum of each list of texts of numbers as a double, from the name of the type of the list.

    Raises:
        SqlError: the numbers are whole or decimal, and no double is their sum.
    """
    rows = zip(values.to_pylist(), types.to_pylist(), strict=True)
    with localcontext(_DIGITS):
        return pa.array([_checked(row, kind or "") for row, kind in rows], pa.float64())


def _checked(row: list[str | None] | None, kind: str) -> float | None:
    numbers = [text for text in row or () if text is not None]
    if not numbers:
        return None
    if not kind[kind.find("(") + 1 :].removeprefix("non-null ").startswith(_EXACT):
        return sum(map(float, numbers))
    total = _sum(row)
    found = float(total or 0)
    if Decimal(repr(found)) != total:
        raise SqlError(
            f"the sum of a list is {total}, which a double cannot hold: write CAST(list AS BIGINT[]) for the list,"
            " or sum(x) over FROM unnest(list) AS u(x)"
        )
    return found


def _sum(row: list[str | None] | None) -> Decimal | None:
    numbers = [Decimal(text) for text in row or () if text is not None]
    return sum(numbers, Decimal()) if numbers else None


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:f}"


FUNCTIONS: Final = (
    OwnFunction(exact_sums, (TEXTS,), pa.string(), EXACT_SUM),
    OwnFunction(checked_sums, (TEXTS, pa.string()), pa.float64(), CHECKED_SUM),
)
