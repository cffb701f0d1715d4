"""The keys of a join as a condition of a source."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flightllm.attached.columns import Column
from flightllm.attached.keys import MOST_KEYS, Keys, among
from flightllm.attached.literals import with_times


def keys_of(*batches: list[Any]) -> list[Any] | None:
    """Return the distinct keys of some batches as Python values."""
    made = [pa.record_batch({"k": pa.array(values, pa.int64())}) for values in batches]
    keys = Keys("k", lambda _: made)
    keys.read(lambda: False)
    return None if keys.known is None else [one.as_py() for one in keys.known]


def test_distinct() -> None:
    """Repeats and NULL are no keys; too many keys are none."""
    assert keys_of([1, None, 2], [2, 3, None]) == [1, 2, 3]
    assert keys_of() == []
    assert keys_of([None]) == []
    assert keys_of(list(range(MOST_KEYS))) is not None
    assert keys_of(list(range(MOST_KEYS)), [MOST_KEYS]) is None


@pytest.mark.parametrize(
    ("type_", "values", "sql"),
    [
        (pa.int32(), pa.array([1, -2], pa.int64()), 't."a" IN (1, (-2))'),
        (pa.string(), pa.array(["it's", "; DROP TABLE x --"]), """t."a" IN ('it''s', '; DROP TABLE x --')"""),
        (pa.decimal128(9, 2), pa.array([Decimal("1.50")]), 't."a" IN (1.50)'),
        (pa.string(), pa.array(["\\"]), None),
        (pa.string(), pa.array([1]), None),
        (pa.int64(), pa.array(["1"]), None),
    ],
)
def test_among(type_: pa.DataType, values: pa.Array, sql: str | None) -> None:
    """Constants are quoted; without a constant for each key of the column's kind, there is no condition."""
    found = among(Column("a", "a type", type_, compared="order"), list(values), with_times)
    assert (None if found is None else found.sql(dialect="postgres")) == sql
