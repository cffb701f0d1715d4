"""Order by the column of a table, and not by its cast in SELECT, in the dialects where a cast has no such name."""

from typing import TYPE_CHECKING, Any, Final

from flightllm.dialect.output_names import repeated_name

if TYPE_CHECKING:
    from sqlglot import exp

_UNNAMED: Final = ("bigquery", "duckdb", "snowflake")
"""Dialects in which `CAST(x AS VARCHAR)` is not named `x`; PostgreSQL and Spark give it this name."""


def name_casts(tree: "exp.Expr", dialect: str) -> None:
    """Rewrite `SELECT x::TEXT FROM t ORDER BY x` as `SELECT x::TEXT AS "CAST(x AS TEXT)" FROM t ORDER BY x`.

    DataFusion names a cast by its column, and ORDER BY reads the names of the result first.
    """
    from sqlglot import exp

    if dialect not in _UNNAMED:
        return
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        keys = {_folded(key.this) for key in order.expressions} if order is not None else set()
        for item in list(select.expressions):
            if isinstance(item, exp.Cast) and _folded(_column(item)) in keys - {""}:
                text = item.sql(dialect=dialect)
                name = text if isinstance(tree, exp.Create) else repeated_name(text)
                item.replace(exp.alias_(item.copy(), name, quoted=True))


def _column(item: Any) -> Any:
    """Return the value of casts in casts."""
    from sqlglot import exp

    while isinstance(item, exp.Cast | exp.Paren):
        item = item.this
    return item


def _folded(value: Any) -> str:
    """Return the name of a column without a table, in lower case; an empty text for another value."""
    from sqlglot import exp

    return str(value.name).lower() if isinstance(value, exp.Column) else ""
