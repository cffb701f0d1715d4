"""Write aggregates."""

from collections.abc import Mapping
from typing import Any

from flightllm.common.names import SNOWFLAKE_ELEMENTS, SNOWFLAKE_JOINED, VALUE_TEXT
from flightllm.dialect.generator.forms import text_of
from flightllm.dialect.generator.written import Written
from flightllm.errors import UnsupportedError


def aggregates() -> Mapping[type, Written]:
    """Return the function that writes an aggregate, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.ApproxDistinct: lambda generator, found: generator.func("APPROX_DISTINCT", found.this),
        exp.ArrayAgg: _listed,
        exp.ArgMax: lambda generator, found: _extreme(generator, found, "DESC"),
        exp.ArgMin: lambda generator, found: _extreme(generator, found, "ASC"),
        exp.GroupConcat: _joined,
    }


def _listed(generator: Any, found: Any) -> str:
    """Write a list without NULLs; sqlglot puts DISTINCT into the condition of a FILTER."""
    from sqlglot import exp

    inner = found.this.this if isinstance(found.this, exp.Order) else found.this
    if found.args.get("nulls_excluded") and isinstance(found.parent, exp.Filter) and isinstance(inner, exp.Distinct):
        given = found.parent.expression.this
        given.replace(exp.and_(given.copy(), inner.expressions[0].is_(exp.null()).not_()))
        found.set("nulls_excluded", False)  # noqa: FBT003 - as sqlglot takes it
    elif found.args.get("nulls_excluded") and not isinstance(found.parent, exp.Filter) and not inner.find(exp.Column):
        # sqlglot leaves out only the NULLs of columns
        value = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
        known = f"FILTER (WHERE {generator.sql(value)} IS NOT NULL)"
        found.set("nulls_excluded", False)  # noqa: FBT003 - as sqlglot takes it
        return f"{generator.arrayagg_sql(found)} {known}"
    return str(generator.arrayagg_sql(found))


def _extreme(generator: Any, found: Any, direction: str) -> str:
    value, key = generator.sql(found, "this"), generator.sql(found, "expression")
    known = f"{key} IS NOT NULL" + (f" AND {value} IS NOT NULL" if found.args.get("known_only") else "")
    return f"FIRST_VALUE({value} ORDER BY {key} {direction}) FILTER (WHERE {known})"


def _joined(generator: Any, found: Any) -> str:
    from sqlglot import exp

    between = generator.sql(found.args.get("separator") or exp.Literal.string(","))
    ordered = found.this if isinstance(found.this, exp.Order) else None
    text = generator.sql(ordered.this if ordered is not None else found.this)
    keys = f" ORDER BY {generator.expressions(ordered, flat=True)}" if ordered is not None else ""
    value = ordered.this if ordered is not None else found.this
    if generator.read_from == "snowflake":
        if isinstance(value, exp.Distinct):
            return _joined_once(found, text, keys, between)
        text = text_of(text, SNOWFLAKE_JOINED)
    return f"STRING_AGG({text}, {between}{keys})"


def _joined_once(found: Any, text: str, keys: str, between: str) -> str:
    """Write `LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY a)` of numbers and others, which are sorted as they are.

    Raises:
        UnsupportedError: the aggregate has a FILTER, or an order over a window.
    """
    from sqlglot import exp

    ordered = found.this if isinstance(found.this, exp.Order) else None
    if ordered is not None and [one.this for one in ordered.expressions] != ordered.this.expressions:
        raise UnsupportedError(
            "LISTAGG(DISTINCT a) is sorted by its value here: write LISTAGG(DISTINCT a) WITHIN GROUP (ORDER BY a)"
        )
    if isinstance(found.parent, exp.Window) and ordered is None:  # the order of the values is any one
        return f"STRING_AGG(DISTINCT {text_of(text, SNOWFLAKE_JOINED)}, {between})"
    if isinstance(found.parent, exp.Window | exp.Filter):
        raise UnsupportedError(
            "LISTAGG(DISTINCT a) with OVER or FILTER has no counterpart: write it in a subquery with GROUP BY, and join"
            " its rows to the others"
        )
    listed = f"{VALUE_TEXT}(array_agg({text}{keys}), '{SNOWFLAKE_ELEMENTS}')"
    return f"coalesce(array_to_string({listed}, {between}), '')"
