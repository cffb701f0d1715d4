"""Keep the case of the names that a text gives to columns, in the dialects that keep it."""

from typing import TYPE_CHECKING

from flightllm.functions.call import ERROR_FIELDS

if TYPE_CHECKING:
    from sqlglot import exp

_KEEPING = ("bigquery", "databricks", "spark", "duckdb")
"""Dialects in which `1 AS reviewScore` is named `reviewScore`; others fold the name."""
_AS_WRITTEN = ("bigquery", "databricks", "spark")
"""Dialects that name a column of the result as SELECT spells it, and not as its table does."""


def keep_names(tree: "exp.Expr", dialect: str) -> None:
    """Rewrite `SELECT 1 AS reviewScore` as `SELECT 1 AS "reviewScore"`, and `SELECT Id` as `SELECT Id AS "Id"`.

    Other rules find these names by unquoted names in any case.
    """
    from sqlglot import exp

    if dialect not in _KEEPING:
        return
    for found in tree.find_all(exp.Alias, exp.TableAlias):
        named = [found.args.get("alias")] if isinstance(found, exp.Alias) else found.args.get("columns") or []
        for name in named:
            if isinstance(name, exp.Identifier) and name.name != name.name.lower():
                name.set("quoted", bool(name))
    query = tree.expression if isinstance(tree, exp.Create | exp.Insert) else tree
    if dialect not in _AS_WRITTEN or not isinstance(query, exp.Query):
        return
    first = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    for item in list(first.expressions) if isinstance(first, exp.Select) else []:
        bare = isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier) and not item.this.quoted
        if bare and item.name != item.name.lower():
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))


def quote_error_fields(tree: "exp.Expr") -> None:
    """Rewrite `r.errorMessage` as `r."errorMessage"` in a text with a call that returns this field.

    A column of this name after a table stays.
    """
    from sqlglot import exp

    _, field = ERROR_FIELDS["result"]
    flagged = any(one.name.lower() == "on_error" for one in tree.find_all(exp.Var, exp.Identifier))
    tables = {one.alias_or_name.lower() for one in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    for name in tree.find_all(exp.Identifier) if flagged else ():
        around = name.parent
        after = isinstance(around, exp.Dot) or (isinstance(around, exp.Column) and around.table.lower() not in tables)
        if after and name.arg_key in {"this", "expression"} and name.name.lower() == field.lower():
            name.replace(exp.to_identifier(field, quoted=True))
