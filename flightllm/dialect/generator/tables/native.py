"""Write the functions of DuckDB and PostgreSQL, which the server reads under their own names."""

from functools import cache
from typing import Any, Final

from flightllm.dialect.generator.calls import Table, same
from flightllm.dialect.generator.tables.duckdb import DUCKDB
from flightllm.dialect.generator.tables.postgres import POSTGRES

_BY_SQLGLOT: Final = frozenset({"DATE_DIFF", "DATEDIFF", "REGEXP_EXTRACT"})
"""Functions that mean something else here; the generator writes what they mean in their dialect."""
_OTHERS: Final[dict[str, Table]] = {"duckdb": DUCKDB, "postgres": POSTGRES}
"""By dialect, the functions that have another form here."""


@cache
def native(dialect: str) -> Table:
    """Return rules that write each function of a dialect as in the text."""
    from sqlglot.dialects.dialect import Dialect

    parser: Any = Dialect.get_or_raise(dialect).parser_class
    return {
        **same(*(parser.FUNCTIONS.keys() - parser.FUNCTION_PARSERS.keys() - _BY_SQLGLOT)),
        **_OTHERS.get(dialect, {}),
    }
