"""Texts of intervals, read a column at a time."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.text_intervals import text_intervals


def test_texts() -> None:
    """NULL stays NULL."""
    found = text_intervals(pa.array(["1 day 02:03:04", None, "P1M"]))
    assert found.to_pylist() == [(0, 1, 7_384_000_000_000), None, (1, 0, 0)]


def test_wrong_text() -> None:
    """A text of another form is refused, and the error does not show the text."""
    with pytest.raises(SqlError, match=r"^a text has no form of an interval"):
        text_intervals(pa.array(["secret"]))
