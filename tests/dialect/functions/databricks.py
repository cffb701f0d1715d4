"""Functions of Databricks that Spark has not; a test compares the others with those of Spark."""

from typing import Any, Final

ROWS: Final[list[tuple[Any, ...]]] = [
    ("charindex('o', s)", 5),
]
"""Each expression and its values: of the row with values, and of the row of NULL, which is NULL if it is left out."""
AGGREGATES: Final[list[tuple[Any, ...]]] = []
"""Each aggregate and its value."""
