"""One instant in a plan whose constants are not folded."""

from datafusion import SessionContext
from datafusion.substrait import Consumer, Producer, Serde
from substrait.plan_pb2 import Plan

from flightllm.plan.pin_time import pin_time


def test_pinned() -> None:
    """All calls of now() and its kind become literals of one instant, with their types."""
    context = SessionContext()
    times = "now() AS a, current_date AS b, current_time AS c, today() AS d"
    frame = context.sql(f"SELECT {times}, now() = now() AS e, date_trunc('day', now()) AS f")
    plan = Plan.FromString(Producer.to_substrait_plan(frame.logical_plan(), context).encode())
    pin_time(plan)
    decoded = Serde.deserialize_bytes(plan.SerializeToString())
    pinned = context.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(context, decoded))
    shown = pinned.logical_plan().display_indent()
    assert "now()" not in shown
    assert "current_" not in shown
    (row,) = pinned.to_pylist()
    assert row["e"]
    assert row["b"] == row["d"] == row["a"].date() == row["f"].date()
    assert row["c"].replace(microsecond=0) == row["a"].time().replace(microsecond=0)
