"""Sums and averages of intervals have PostgreSQL's values."""

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from tests.databases import rows

TIMES = "(VALUES (1, TIMESTAMP '2000-01-01', TIMESTAMP '2200-01-01'), (2, NULL, TIMESTAMP '2200-01-01')) v(n, a, b)"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT sum(b - a) FROM {TIMES}, generate_series(1, 10) g(i)", (0, 730_490, 0)),
        (f"SELECT avg(d) FROM (SELECT b - a AS d FROM {TIMES}, generate_series(1, 4) g(i)) q", (0, 73_049, 0)),
        (f"SELECT sum(b - a) FILTER (WHERE n = 2) FROM {TIMES}", None),
        ("SELECT avg(i) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '2 days'), (NULL)) v(i)", (0, 1, 43_200 * 10**9)),
        ("SELECT avg(i) OVER () FROM (VALUES (INTERVAL '1 month')) v(i)", (1, 0, 0)),
        ("SELECT sum(t - TIME '09:00') FROM (VALUES (TIME '10:00'), (TIME '10:00')) v(t)", (0, 0, 7_200 * 10**9)),
    ],
)
def test_values(session: Session, sql: str, wanted: tuple[int, int, int] | None) -> None:
    """A sum can be longer than 292 years, and an average is the sum divided by the count."""
    (found,) = rows(session, sql)[0].values()
    assert found == (None if wanted is None else pa.MonthDayNano(wanted))
