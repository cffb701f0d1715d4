"""Functions of Databricks: those of Spark, with the values that Spark computes, and a few of its own."""

from typing import Any, Final

from tests.dialect.functions.spark import AGGREGATES as OF_SPARK
from tests.dialect.functions.spark import ROWS as ROWS_OF_SPARK

ROWS: Final[list[tuple[Any, ...]]] = [
    *ROWS_OF_SPARK,
    ("charindex('o', s)", 5),
]
"""Each expression and its values: of the row with values, and of the row of NULL, which is NULL if it is left out."""
AGGREGATES: Final[list[tuple[Any, ...]]] = [
    *OF_SPARK,
]
"""Each aggregate and its value."""
