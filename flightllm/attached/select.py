"""The SELECT that goes out for one scan."""

from collections.abc import Sequence

from sqlglot import exp

from flightllm.attached.columns import ALIAS, Column, SourceTable, named


def select_text(
    table: SourceTable, columns: Sequence[Column], where: exp.Expr | None, dialect: str, limit: int | None = None
) -> str:
    """Return a SELECT of some columns and rows of a table in a dialect; names and constants are quoted.

    Without columns, each row has the constant 1. The rows of a query come in its order if all columns are wanted.
    """
    if table.query is not None and where is None and columns and list(columns) == list(table.columns):
        return _as_it_is(table.query, columns, limit).sql(dialect=dialect, comments=False)
    items: list[exp.Expr] = [
        exp.alias_(
            column.read(named(column)),
            exp.to_identifier(f"c{place}", quoted=True),
        )
        for place, column in enumerate(columns)
    ]
    schema = exp.to_identifier(table.schema, quoted=True) if table.schema else None
    place: exp.Expr = exp.alias_(
        exp.Table(this=exp.to_identifier(table.name, quoted=True), db=schema), ALIAS, table=True
    )
    if table.query is not None:
        place = table.query.subquery(ALIAS)
    query = exp.Select(expressions=items or [exp.Literal.number(1)]).from_(place)
    if where is not None:
        query = query.where(where)
    if limit is not None:
        query = query.limit(limit)
    return query.sql(dialect=dialect, comments=False)


def _as_it_is(query: exp.Select, columns: Sequence[Column], limit: int | None) -> exp.Select:
    """Return a query that reads its columns as a scan does."""
    found = query.copy()
    for column, item in zip(columns, found.expressions, strict=True):
        item.set("this", column.read(item.this))
    if limit is None:
        return found
    own = found.args.get("limit")
    return found.limit(limit if own is None else min(limit, int(own.expression.name)))
