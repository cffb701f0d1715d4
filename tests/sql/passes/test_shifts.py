"""Shifts have the bits of their type."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("7 << -2", -1073741824),
        ("1 << 31", -2147483648),
        ("CAST(1 AS smallint) << 15", -32768),
        ("CAST(1 AS smallint) << 16", 0),
        ("CAST(1 AS bigint) << 33", 8589934592),
        ("-7 >> 1", -4),
        ("CAST(NULL AS int) << 1", None),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A smallint has 16 bits, an integer 32, and a bigint 64."""
    assert ask(session, f"SELECT {value} AS v").table.to_pylist() == [{"v": wanted}]
