"""Order by a path under its alias as by the path itself: a value without a type has the order of its kind."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def order_by_paths(tree: "exp.Expr") -> None:
    """Rewrite `SELECT v:n AS n … ORDER BY n` as `… ORDER BY v:n`, which sorts numbers as numbers."""
    from sqlglot import exp

    for key in tree.find_all(exp.Ordered):
        select = key.find_ancestor(exp.Select, exp.Window, exp.WithinGroup)
        column = key.this
        if not isinstance(select, exp.Select) or select.args.get("distinct") or not isinstance(column, exp.Column):
            continue
        for item in select.expressions if not column.table else []:
            is_path = isinstance(item, exp.Alias) and isinstance(item.this, exp.JSONExtract | exp.GetExtract)
            if is_path and item.alias.lower() == column.name.lower():
                key.set("this", item.this.copy())
