"""Names of types in SQL, from DataFusion's texts of them."""

import pytest

from flightllm.common.type_names import name_of_text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("List(Int64)", "BIGINT[]"),
        ("List(Int32, field: 'element')", "INTEGER[]"),
        ("""List(Struct("a": Int64), field: 'element')""", "STRUCT(a BIGINT)[]"),
        ("""Struct("b": List(non-null Utf8, field: 'element'), "c": Int8)""", "STRUCT(b VARCHAR[], c TINYINT)"),
        ("FixedSizeList(3 x Float32, field: 'element')", "FLOAT[3]"),
    ],
)
def test_lists(text: str, name: str) -> None:
    """The name of a list's elements is no part of its type."""
    assert name_of_text(text) == name
