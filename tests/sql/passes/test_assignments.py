"""Values that a change stores fit their columns as in PostgreSQL."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows


@pytest.fixture
def changed(session: Session) -> Iterator[Session]:
    """Return a session with a table of one row."""
    session.update("CREATE TABLE kept (n int, d double precision, p numeric(6, 2), i interval, a timestamp)")
    session.update("INSERT INTO kept VALUES (1, 2.5, 1.005, interval '1 hour', timestamp '2024-01-03 01:00:00')")
    yield session
    session.update("DROP TABLE kept")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("UPDATE kept SET n = d", [2]),
        ("UPDATE kept SET n = 2.5", [3]),
        ("UPDATE kept SET (n, d) = (-1.5, 0)", [-2]),
        ("UPDATE kept SET n = (SELECT avg(x) FROM (VALUES (1), (2)) v(x))", [2]),
        ("INSERT INTO kept (n) SELECT d + 1 FROM kept", [1, 4]),
        ("INSERT INTO kept (n) SELECT DISTINCT d + 1 FROM kept LIMIT 1", [1, 4]),
        ("INSERT INTO kept (n) SELECT x FROM (VALUES (1.5::float8), (2.5)) v(x) GROUP BY 1", [1, 2, 2]),
        ("INSERT INTO kept (n) SELECT avg(d) FROM kept", [1, 2]),
        ("INSERT INTO kept (d, n) VALUES (0, 0.5), (1, NULL)", [1, 1, None]),
        ("MERGE INTO kept USING (SELECT 1 AS k) s ON n = k WHEN MATCHED THEN UPDATE SET n = 1.5", [2]),
        ("MERGE INTO kept USING (SELECT 7 AS k) s ON n = k WHEN NOT MATCHED THEN INSERT (n) VALUES (2.5)", [1, 3]),
    ],
)
def test_whole_numbers(changed: Session, change: str, wanted: list[int | None]) -> None:
    """A fraction is rounded: halves of a literal away from zero, and halves of a double to the even number."""
    changed.update(change)
    assert [row["n"] for row in rows(changed, "SELECT n FROM kept ORDER BY n NULLS LAST")] == wanted


def test_decimals_and_intervals(changed: Session) -> None:
    """A literal is rounded as a decimal, and a time between two timestamps counts in days."""
    changed.update("UPDATE kept SET i = a - timestamp '2024-01-01'")
    (row,) = rows(changed, "SELECT p, CAST(i AS text) AS i FROM kept")
    assert row == {"p": Decimal("1.01"), "i": "2 days 01:00:00"}


@pytest.mark.parametrize("sql", ["INSERT INTO kept VALUES (1, 2)", "UPDATE kept SET n = n + 1"])
def test_other_texts_stay(changed: Session, sql: str) -> None:
    """A change whose values fit stays."""
    assert rows(changed, "SELECT 1 AS one") == [{"one": 1}]
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
