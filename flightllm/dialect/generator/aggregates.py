"""Write aggregates."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written


def aggregates() -> Mapping[type, Written]:
    """Return the function that writes an aggregate, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.ApproxDistinct: lambda generator, found: generator.func("APPROX_DISTINCT", found.this),
        exp.ArgMax: lambda generator, found: _extreme(generator, found, "DESC"),
        exp.ArgMin: lambda generator, found: _extreme(generator, found, "ASC"),
        exp.GroupConcat: _joined,
    }


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
    return f"STRING_AGG({text}, {between}{keys})"
