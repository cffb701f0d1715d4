"""Name the columns of queries in FROM and WITH after the text, and not after the functions that the server writes."""

from typing import TYPE_CHECKING, Any

from flightllm.dialect.generator.calls import vendor_call

if TYPE_CHECKING:
    from sqlglot import exp

_WIDE = ("COLUMNS", "UNNEST")
"""Functions that can return several columns."""


def name_inner_columns(tree: "exp.Expr") -> None:
    """Rewrite `(SELECT upper(a) FROM t) AS q` as `(SELECT upper(a) AS "upper(a)" FROM t) AS q`."""
    from sqlglot import exp

    for select in tree.find_all(exp.Select):
        if not _is_table(select):
            continue
        for item in list(select.expressions):
            if isinstance(item, exp.Func | exp.Binary | exp.Literal | exp.Window | exp.Filter) and not _is_wide(item):
                item.replace(exp.alias_(item.copy(), _text(item), quoted=True))


def _is_table(select: "exp.Select") -> bool:
    """Return whether a SELECT is a query of FROM or WITH, or a part of one."""
    from sqlglot import exp

    around: Any = select.parent
    while isinstance(around, exp.SetOperation):
        around = around.parent
    in_from = isinstance(around, exp.Subquery) and isinstance(around.parent, exp.From | exp.Join)
    return in_from or isinstance(around, exp.CTE)


def _is_wide(item: "exp.Expr") -> bool:
    from sqlglot import exp

    if isinstance(item, exp.Cast | exp.Dot | exp.PropertyEQ) or item.find(
        exp.Star, exp.Explode, exp.Unnest, exp.Columns
    ):
        return True
    made: Any = vendor_call()
    return any(isinstance(one, exp.Func) and isinstance(one, made) and str(one.this) in _WIDE for one in item.walk())


def _text(item: "exp.Expr") -> str:
    from sqlglot import exp

    made: Any = vendor_call()

    def plain(node: Any) -> Any:
        if not isinstance(node, made):
            return node
        return exp.Anonymous(
            this=str(node.this).lower(), expressions=[one.transform(plain) for one in node.expressions]
        )

    return str(item.transform(plain).sql(dialect="duckdb", normalize_functions="lower"))
