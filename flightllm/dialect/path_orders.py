"""Order by a path under its alias as by the path itself: a value without a type has the order of its kind."""

from typing import TYPE_CHECKING

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp


def order_by_paths(tree: "exp.Expr") -> None:
    """Rewrite `SELECT v:n AS n … ORDER BY n` as `… ORDER BY v:n`, which sorts numbers as numbers.

    Raises:
        UnsupportedError: the rows of a set operation are in the order of a path.
    """
    from sqlglot import exp

    for key in tree.find_all(exp.Ordered):
        select, column = key.parent.parent if isinstance(key.parent, exp.Order) else None, key.this
        if isinstance(select, exp.SetOperation):
            _check_branches(select, column)
        if not isinstance(select, exp.Select) or select.args.get("distinct") or not isinstance(column, exp.Column):
            continue
        for item in select.expressions if not column.table else []:
            if _is_path(item) and item.alias.lower() == column.name.lower():
                key.set("this", item.this.copy())


def _is_path(item: "exp.Expr") -> bool:
    """Return whether an item is a path with an alias."""
    from sqlglot import exp

    return isinstance(item, exp.Alias) and isinstance(item.this, exp.JSONExtract | exp.GetExtract)


def _check_branches(found: "exp.SetOperation", column: "exp.Expr") -> None:
    """Check that no branch of a UNION gives a value without a type to ORDER BY.

    Raises:
        UnsupportedError: a branch has a path under the name or the number of the column.
    """
    from sqlglot import exp

    first = found.selects
    names = [item.alias_or_name.lower() for item in first]
    if isinstance(column, exp.Literal) and not column.is_string:
        place = int(column.name) - 1 if column.name.isdecimal() else -1
    else:
        place = names.index(column.name.lower()) if column.name.lower() in names else -1
    branches = [one for one in found.find_all(exp.Select) if one.parent_select is found.parent_select]
    listed = [one.expressions[place] for one in branches if 0 <= place < len(one.expressions)]
    if any(isinstance(one.unalias(), exp.JSONExtract | exp.GetExtract) for one in listed):
        raise UnsupportedError(
            "ORDER BY after a set operation orders a value without a type by its kind: write a type after the path, as"
            " in d:price::NUMBER"
        )
