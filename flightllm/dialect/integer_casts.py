"""Round in casts to integers, as other servers do; DataFusion truncates."""

from typing import TYPE_CHECKING

from flightllm.dialect.generator.reading import typed_form
from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_PLACE = "integer_cast"
"""The key under which a cast keeps its place in the copy of a tree that has types."""
ROUNDING = ("bigquery", "snowflake")
"""The dialects whose casts round as these rules do; a pass rounds for PostgreSQL and DuckDB."""
_MOST_PARTS = 100
"""The most syntax nodes of an operand, because the rewritten cast repeats the operand three times."""


def round_integer_casts(tree: "exp.Expr", dialect: str) -> None:
    """Rewrite `CAST(2.7 AS BIGINT)` as `CAST(ROUND(2.7) AS BIGINT)`, in place; halves round away from zero.

    An operand of unknown type can be a boolean, which ROUND rejects, or a large integer, which ROUND makes inexact. For
    such an operand the integer part stays, and only the rounded rest is added. Casts of unknown functions stay.

    Raises:
        UnsupportedError: an operand of unknown type is too long to be repeated.
    """
    from sqlglot import exp
    from sqlglot.optimizer.annotate_types import annotate_types

    casts = [cast for cast in tree.find_all(exp.Cast) if cast.to.this in exp.DataType.INTEGER_TYPES]
    if not casts:
        return
    for place, cast in enumerate(casts):
        cast.meta[_PLACE] = place
    known = annotate_types(typed_form(tree, dialect), dialect=dialect)
    kinds = {
        cast.meta[_PLACE]: cast.this.type.this
        for cast in known.find_all(exp.Cast)
        if _PLACE in cast.meta and cast.this.type is not None
    }
    for place, cast in reversed(list(enumerate(casts))):  # inner casts first
        kind = kinds.get(place, exp.DType.UNKNOWN)
        operand = cast.this
        if kind in exp.DataType.REAL_TYPES:
            cast.set("this", exp.Round(this=operand.copy()))
        elif dialect == "snowflake" and isinstance(operand, exp.Literal) and "." in operand.name:  # '7.9'
            number = exp.Cast(this=operand.copy(), to=exp.DataType.build("DOUBLE"))
            cast.set("this", exp.Round(this=number))
        elif kind == exp.DType.UNKNOWN and not operand.find(exp.Anonymous, exp.Query, exp.JSONExtract, exp.Placeholder):
            if sum(1 for _ in operand.walk()) > _MOST_PARTS:
                raise UnsupportedError(
                    f"an integer cast rounds in {dialect}, and its operand is too long: write round() inside the cast"
                )
            cast.set("this", _rounded(cast, operand))


def _rounded(cast: "exp.Cast", operand: "exp.Expr") -> "exp.Expr":
    """Return the integer part of an operand plus its rounded rest."""
    from sqlglot import exp

    def as_type(value: "exp.Expr", name: str) -> "exp.Expr":
        return type(cast)(this=value.copy(), to=exp.DataType.build(name))

    whole = as_type(operand, "BIGINT")
    rest = exp.Sub(this=as_type(operand, "DOUBLE"), expression=as_type(whole, "DOUBLE"))
    return exp.Paren(this=exp.Add(this=whole, expression=as_type(exp.Round(this=rest), "BIGINT")))
