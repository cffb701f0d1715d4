"""Texts give the bytes that PostgreSQL reads in them."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.text_bytes import text_bytes


def test_bytes() -> None:
    """Hexadecimal digits, escapes and plain characters are read."""
    found = text_bytes(pa.array([r"\x6162", r"a\000\\", "ä", "", None]))
    assert found.to_pylist() == [b"ab", b"a\x00\\", "ä".encode(), b"", None]


@pytest.mark.parametrize("text", [r"\x6", r"\9"])
def test_refused(text: str) -> None:
    """Another text is an error that says what to write."""
    with pytest.raises(SqlError, match="write two hexadecimal digits"):
        text_bytes(pa.array([text]))
