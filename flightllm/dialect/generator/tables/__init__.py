"""Say how each dialect's functions are written: one table for each dialect."""

from collections.abc import Mapping

from flightllm.dialect.generator.calls import Table
from flightllm.dialect.generator.tables.snowflake import SNOWFLAKE

_TABLES: Mapping[str, Table] = {"snowflake": SNOWFLAKE}


def table_of(dialect: str) -> Table:
    """Return the table of a dialect; it is empty for a dialect whose functions sqlglot reads."""
    return _TABLES.get(dialect, {})
