"""Share the units of times, and the type of a function that writes one expression."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp

Written = Callable[[Any, Any], str]
"""Takes the generator and an expression, and returns its text."""
NATIVE = ("duckdb", "postgres")
"""Dialects whose functions the server reads under their own names."""
SPARKS = ("databricks", "spark")
"""Dialects of Spark."""
DAYS = {"DAY": 1, "WEEK": 7, "ISOWEEK": 7}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


def unit_of(found: "exp.Expr", usual: str) -> str:
    """Return the unit of a function over times in capitals, or `usual` without a unit."""
    unit = found.args.get("unit")
    return usual if unit is None else str(unit.name).upper()
