"""Parts of times and intervals are those of PostgreSQL."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("CAST(extract(second FROM time '08:30:15.5') AS text)", "15.500000"),
        ("date_part('second', timestamp '2024-01-01 00:00:02.25')", 2.25),
        ("extract(hour FROM timestamp '2024-01-03 05:00' - timestamp '2024-01-01')", 5),
        ("extract(day FROM timestamp '2024-01-03 05:00' - timestamp '2024-01-01')", 2),
        ("date_part('epoch', interval '1 year 1 month')", 34149600.0),
        ("extract(epoch FROM timestamp '1970-01-01 00:00:01')", 1.0),
        ("interval '1 year' > interval '360 days'", False),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """Seconds have their fraction, and hours of a difference are beside its days."""
    assert ask(session, f"SELECT {value} AS v").table.to_pylist() == [{"v": wanted}]
