"""DataFusion's expressions."""

from datafusion import SessionContext, col, lit
from datafusion.expr import Projection

from flightllm.common.expressions import unaliased


def test_unaliased() -> None:
    """All outer aliases go, and no inner one; it holds for own expressions and for those of plans."""
    assert unaliased(col("a").alias("b").alias("c")).variant_name() == "Column"
    assert unaliased(col("a").alias("b") + lit(1)).variant_name() == "BinaryExpr"
    plan = SessionContext().sql("SELECT a + 1 AS b, a FROM (VALUES (1)) AS t(a)").logical_plan().to_variant()
    assert isinstance(plan, Projection)
    assert [unaliased(one).variant_name() for one in plan.projections()] == ["BinaryExpr", "Column"]
