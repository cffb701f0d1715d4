"""The sizes of decimals tell whether DataFusion has room for a result."""

import pyarrow as pa
import pytest

from flightllm.sql.nodes import body
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.decimal_sizes import DecimalSizes, Size, alike_fits, fits, product_fits
from flightllm.sql.tree import parse
from flightllm.sql.types import ExpressionTypes, expressions_of


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("0.05", Size(0, 2)),
        ("-(12.5)", Size(2, 1)),
        ("n + 0.005", Size(18, 3)),
        ("n * 1.5", Size(19, 3)),
        ("n * k", Size(28, 2)),
        ("sum(n)", Size(28, 2)),
        ("round(n, 1)", Size(18, 2)),
        ("CASE WHEN k > 0 THEN n ELSE 0.1234 END", Size(18, 4)),
        ("coalesce(NULL, 0.5)", Size(0, 1)),
        ("d + 0.5", None),
        ("n / 2", None),
        ("n" + " + 0.1" * 400, Size(18, 2)),
    ],
)
def test_sizes(value: str, wanted: Size | None) -> None:
    """An expression has the digits of its operands; a double has no size."""
    tree = parse(ParsedText(f"SELECT {value} FROM t"))
    assert tree is not None
    columns = {"n": pa.decimal128(20, 2), "k": pa.int32(), "d": pa.float64()}
    (expression,) = expressions_of(body(tree.root)["body"])
    assert DecimalSizes(ExpressionTypes(tree.root, lambda _: columns)).of(expression) == wanted


def test_room() -> None:
    """A decimal has 38 digits. A compared double has 15 after the point, and a product at most 18."""
    assert fits(Size(28, 10))
    assert not fits(Size(36, 3))
    assert alike_fits([Size(36, 2), Size(0, 15)])
    assert not alike_fits([Size(36, 2), Size(0, 16)])
    assert product_fits(Size(28, 10), Size(1, 8))
    assert not product_fits(Size(28, 10), Size(1, 9))
    assert not product_fits(Size(36, 2), Size(1, 8))
