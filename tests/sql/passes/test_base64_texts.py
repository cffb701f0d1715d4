"""Texts in base64 are those of PostgreSQL."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("encode('ab'::bytea, 'base64')", "YWI="),
        ("encode('ab'::bytea, 'hex')", "6162"),
        ("length(encode(repeat('x', 114)::bytea, 'base64'))", 153),
        ("length(encode(repeat('x', 57)::bytea, 'base64'))", 76),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A text ends in its signs, and has lines of 76 characters."""
    assert rows(session, f"SELECT {value} AS v") == [{"v": wanted}]
