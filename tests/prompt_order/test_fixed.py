"""The fixed field order: long and repetitive fields first."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from datafusion import SessionContext

from flightllm.prompt_order.fixed import FixedOrder, fixed_order

Columns = dict[str, list[str | None]]


def order_of(columns: Columns) -> FixedOrder:
    """Return the order of a table's columns."""
    context = SessionContext()
    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    context.register_record_batches("t", [[pa.RecordBatch.from_pydict(arrays)]])

    def query(sql: str) -> Iterator[pa.RecordBatch]:
        return (batch.to_pyarrow() for batch in context.sql(sql).execute_stream())

    return fixed_order(query, "t", list(columns))


@pytest.mark.parametrize(
    ("columns", "order"),
    [
        ({"short": ["a"] * 8, "long": ["x" * 100] * 8}, (1, 0)),
        ({"unique": [str(n) * 20 for n in range(8)], "same": ["x" * 20] * 8}, (1, 0)),
        ({"unique_long": [f"{n}" * 200 for n in range(8)], "same_short": ["xx"] * 8}, (0, 1)),
        ({"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]}, (0, 1, 2)),
        ({"nothing": [None] * 8, "some": ["x"] * 8}, (1, 0)),
        ({"sparse": ["x" * 9, *[None] * 7], "dense": ["x" * 9] * 8}, (1, 0)),
        ({"none": [], "at_all": []}, (0, 1)),
        ({"empty": [""] * 4, "letter": ["x"] * 4}, (1, 0)),
        ({"alone": ["x"]}, (0,)),
    ],
)
def test_order(columns: Columns, order: tuple[int, ...]) -> None:
    """The score is average length x rows / distinct values, descending; ties keep the given order."""
    assert order_of(columns).columns == order


def test_distinct() -> None:
    """Distinct tuples are counted, not distinct values of one column."""
    assert order_of({"a": ["x", "x", "y", "y"], "b": ["1", "2", "1", "1"]}).distinct == 3
    assert order_of({"a": [], "b": []}).distinct == 0
