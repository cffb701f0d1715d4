"""Smaller queries that could show the same difference."""

from collections.abc import Iterator
from contextlib import suppress

import sqlglot
from sqlglot import exp


def smaller(sql: str) -> Iterator[str]:
    """Yield queries in which one part of a query is missing or is replaced by a part of it, shortest first."""
    found = set[str]()
    tree = sqlglot.parse_one(sql, dialect="postgres")
    for place, node in enumerate(tree.walk()):
        for choice in range(len(_replacements(node))):
            copy = tree.copy()
            target = next(other for i, other in enumerate(copy.walk()) if i == place)
            new = _replacements(target)[choice]
            if new is None:
                if target.parent is None:
                    continue
                target.pop()
            elif target.parent is None:
                copy = new
            else:
                target.replace(new.copy())
            with suppress(AttributeError, ValueError):  # the writer expects parts that are missing now, as an argument
                found.add(copy.sql(dialect="postgres"))
    whole = len(tree.sql(dialect="postgres"))
    yield from sorted((one for one in found if len(one) < whole), key=len)


def _replacements(node: exp.Expr) -> list[exp.Expr | None]:
    """Return what can take the place of a node; None takes it away."""
    new = list[exp.Expr | None]()
    removable = (exp.Where, exp.Having, exp.Join, exp.Limit, exp.Offset, exp.Order, exp.With, exp.Group, exp.Distinct)
    if isinstance(node, removable) or (isinstance(node, exp.CTE) and isinstance(node.parent, exp.With)):
        new.append(None)
    if node.arg_key == "expressions" and node.parent is not None and len(node.parent.expressions) > 1:
        new.append(None)
    if isinstance(node, exp.Connector | exp.SetOperation):
        new += [node.left, node.right]
    if isinstance(node, exp.Not | exp.Paren | exp.Is | exp.Filter):
        new.append(node.this)
    if isinstance(node, exp.Case | exp.Coalesce | exp.Binary | exp.Func | exp.Window) and node.parent is not None:
        new += node.iter_expressions()
    return new
