"""The tree of a condition, the WHERE that goes out, and the order of floats here."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flightllm.attached.columns import Column
from flightllm.attached.conditions import Call, applied, fields_of, read_tree, where
from flightllm.attached.literals import with_times

COLUMNS = {
    "a": Column("a", "int", pa.int64(), compared="order"),
    "t": Column("t", "text", pa.string(), compared="equality"),
    "f": Column("f", "float", pa.float64(), compared="order"),
    "u": Column("u", "uuid", pa.string()),
    'q"x': Column('q"x', "int", pa.int64(), compared="order"),
}
A, T, F, U = map(pc.field, "atfu")
NAN = pc.scalar(math.nan)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (A > 5, 't."a" > 5'),
        (pc.scalar(5) > A, 't."a" < 5'),
        ((A > 5) & (T == "it's"), """t."a" > 5 AND t."t" = 'it''s'"""),
        ((A > 5) & (T > "x"), 't."a" > 5'),
        ((A > 5) | (T > "x"), None),
        ((A > 5) | (T == "x"), """(t."a" > 5 OR t."t" = 'x')"""),
        (A.isin([1, 2, 3]), 't."a" IN (1, 2, 3)'),
        (A.isin([1, None]), None),
        (A.is_null(), '(t."a" IS NULL)'),
        (~(A > 5), None),
        (A.is_valid(), 'NOT (t."a" IS NULL)'),
        (U == "x", None),
        (F > NAN, None),
        (A == -(1 << 63), 't."a" = (-9223372036854775808)'),
        (pc.field('q"x') == 1, 't."q""x" = 1'),
        (T == "a\\b", None),
        (T == "a\0b", None),
        (A > 5.5, None),
    ],
)
def test_where(condition: pc.Expression, text: str | None) -> None:
    """What the source compares as this server does goes out; all else stays here."""
    found = where(read_tree(condition), COLUMNS, with_times)
    assert (None if found is None else found.sql("postgres")) == text


def test_fields() -> None:
    """The columns of a condition are known, with repeated functions and columns too."""
    condition = ((A > 1) & (A < 9)) | (T.isin(["x"]) & F.is_null())
    tree = read_tree(condition)
    assert tree is not None
    assert fields_of(tree) == {"a", "t", "f"}
    assert isinstance(tree, Call)
    assert tree.function == "or_kleene"


FLOATS = pa.RecordBatch.from_pydict({"f": [1.0, math.nan, None, -math.inf], "a": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (F > 0.0, [1, 2]),
        (F >= NAN, [2]),
        (F < NAN, [1, 4]),
        (F <= 1.0, [1, 4]),
        (F == NAN, [2]),
        (F != NAN, [1, 4]),
        (F != 1.0, [2, 4]),
        ((F > 0.0) & (A < 2), [1]),
        ((F > 0.0) | A.isin([4]), [1, 2, 4]),
        ((F > 0.0) & F.is_valid() & ~(A == 1), [2]),
    ],
)
def test_floats(condition: pc.Expression, kept: list[Any]) -> None:
    """NaN equals itself and is above all numbers, as in DataFusion's own tables."""
    whole = applied(read_tree(condition), condition, FLOATS.schema)
    assert FLOATS.filter(whole)["a"].to_pylist() == kept


def test_others_stay() -> None:
    """A condition without floats is applied as DataFusion gave it."""
    condition = (A > 1) & (T == "x")
    schema = pa.schema([("a", pa.int64()), ("t", pa.string())])
    assert applied(read_tree(condition), condition, schema) is condition
