"""Write the functions of DuckDB and PostgreSQL, which the server reads under their own names."""

from functools import cache
from typing import Any, Final

from flightllm.dialect.generator.calls import Table, form, same

_BY_SQLGLOT: Final = frozenset({"DATE_DIFF", "DATEDIFF", "REGEXP_EXTRACT"})
"""Functions that mean something else here; the generator writes what they mean in their dialect."""
_OTHERS: Final[Table] = {"APPROX_COUNT_DISTINCT": form("approx_distinct({0})")}
"""Functions that have another name here."""


@cache
def native(dialect: str) -> Table:
    """Return rules that write each function of a dialect as in the text."""
    from sqlglot.dialects.dialect import Dialect

    parser: Any = Dialect.get_or_raise(dialect).parser_class
    return {**same(*(parser.FUNCTIONS.keys() - parser.FUNCTION_PARSERS.keys() - _BY_SQLGLOT)), **_OTHERS}
