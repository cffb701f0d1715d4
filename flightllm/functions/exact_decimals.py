"""Arithmetic of decimals with all of their digits: Python's own context keeps 28 of them."""

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def rounded(number: Decimal, digits: int, rounding: str) -> Decimal:
    """Return a finite number with a count of digits after its point."""
    return number.quantize(Decimal(1).scaleb(-digits), rounding, _EXACT)


def shortest(number: Decimal) -> Decimal:
    """Return a number without the zeros at its end: 1.0 becomes 1."""
    return number.normalize(_EXACT)
