"""Say how each dialect's functions are written: one table for each dialect."""

from collections.abc import Mapping

from flightllm.dialect.generator.calls import Table
from flightllm.dialect.generator.tables.bigquery import BIGQUERY
from flightllm.dialect.generator.tables.native import native
from flightllm.dialect.generator.tables.snowflake import SNOWFLAKE
from flightllm.dialect.generator.tables.spark import SPARK

_TABLES: Mapping[str, Table] = {
    "snowflake": SNOWFLAKE,
    "bigquery": BIGQUERY,
    "databricks": SPARK,
    "spark": SPARK,
}


def table_of(dialect: str) -> Table:
    """Return the table of a dialect."""
    return _TABLES[dialect] if dialect in _TABLES else native(dialect)
