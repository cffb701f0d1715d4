"""Counts and money as text for people."""

from math import floor, log10


def money(dollars: float) -> str:
    """Return an amount with two digits that count, as in `$12.30` and `$0.0042`."""
    decimals = 2 if dollars <= 0 else max(2, 1 - floor(log10(dollars)))
    return f"${dollars:,.{decimals}f}"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, as in `1 row` and `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
