"""FORMAT and TO_JSON_STRING of BigQuery."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.typed_texts import json_strings, typed_format


def _format(template: str, *values: tuple[str | None, str]) -> object:
    texts = pa.array([[text for text, _ in values]], pa.list_(pa.string()))
    return typed_format(pa.array([template]), texts, pa.array([[kind for _, kind in values]], pa.list_(pa.string())))[
        0
    ].as_py()


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("|%10d|%-4d|%+d|", [("11", "Int64"), ("5", "Int64"), ("7", "Int64")], "|        11|5   |+7|"),
        ("+%010d+", [("12", "Int64")], "+0000000012+"),
        ("%f %E %g", [("1.1", "Float64"), ("2.2", "Float64"), ("1e20", "Float64")], "1.100000 2.200000E+00 1e+20"),
        ("%.*f", [("1", "Int64"), ("2.25", "Float64")], "2.2"),
        ("%T %t", [('["a",1.5,null]', "List(Utf8)"), ('{"a":"x"}', "Struct(a)")], '["a", 1.5, NULL] (x)'),
        ("%T", [("2024-03-05T01:02:03Z", 'Timestamp(ns, "UTC")')], 'TIMESTAMP "2024-03-05 01:02:03+00"'),
        ("%T %t", [(None, "Int64"), (None, "Utf8")], "NULL NULL"),
        ("%d", [(None, "Int64")], None),
    ],
)
def test_formats(template: str, values: list[tuple[str | None, str]], expected: str | None) -> None:
    """Each place has its value."""
    assert _format(template, *values) == expected


@pytest.mark.parametrize(
    ("template", "said"), [("%s", "%s takes a text"), ("%d %d", "more places"), ("a", "0 places"), ("%", "%%")]
)
def test_misfits(template: str, said: str) -> None:
    """A place that does not fit its value says what to write."""
    with pytest.raises(SqlError, match=said):
        _format(template, ("1", "Int64"))


def test_json_strings() -> None:
    """Whole floats have no fraction; decimals with a fraction and long whole numbers are texts."""
    texts, types = ["1.0", "1.50", "9007199254740993", None], ["Float64", "Decimal128(9, 2)", "Int64", "Int64"]
    assert json_strings(pa.array(texts), pa.array(types)).to_pylist() == ["1", '"1.5"', '"9007199254740993"', None]
