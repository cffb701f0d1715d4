"""The text of a `bytea` literal is read as PostgreSQL does."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (r"'\x6162'::bytea", b"ab"),
        (r"CAST('\x' AS bytea)", b""),
        (r"E'\\xff'::bytea", b"\xff"),
        (r"'a\000\\'::bytea", b"a\x00\\"),
        ("'ab'::bytea", b"ab"),
    ],
)
def test_bytes(session: Session, sql: str, found: bytes) -> None:
    """The value has the bytes that the text means."""
    assert rows(session, f"SELECT {sql} AS found") == [{"found": found}]


@pytest.mark.parametrize("text", [r"\x6", r"\xzz", r"a\b"])
def test_wrong_forms(session: Session, text: str) -> None:
    """A text without such a meaning is refused with its place."""
    with pytest.raises(SqlError, match="1:8"):
        rows(session, f"SELECT '{text}'::bytea")
