"""Bytes in base 64 have PostgreSQL's form."""

from base64 import encodebytes

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize("length", [0, 1, 2, 57, 58, 200])
def test_lines(session: Session, length: int) -> None:
    """The last group is filled, and a line has 76 signs."""
    wanted = encodebytes(b"a" * length).decode()
    wanted = wanted if length and length % 57 == 0 else wanted.removesuffix("\n")
    assert rows(session, f"SELECT encode(repeat('a', {length})::bytea, 'base64') AS r") == [{"r": wanted}]


def test_line_breaks_are_read(session: Session) -> None:
    """What `encode` wrote can be decoded."""
    sql = "SELECT decode(encode(repeat('ab', 100)::bytea, 'base64'), 'base64') AS r"
    assert rows(session, sql) == [{"r": b"ab" * 100}]


def test_bytes_of_literal(session: Session) -> None:
    r"""A literal means bytes: `\x` begins hexadecimal digits."""
    assert rows(session, r"SELECT encode('\x6162', 'hex') AS a, encode('ab', 'hex') AS b") == [
        {"a": "6162", "b": "6162"}
    ]
