"""Joins of an attached table with few keys of this server: only the rows with one of the keys come back."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from flightllm.attached.duckdb import DuckdbSource
from flightllm.attached.postgres import PostgresSource
from flightllm.attached.source import Rows
from flightllm.session.session import Session
from tests.attached.pushed.conftest import Sources
from tests.databases import ask, explained, rows

KEYS = "(1, 'n1', 5), (1, 'n1', 6), (77, 'n77', 7), (29999, 'n29999', 8), (NULL, NULL, 9), (50000, 'none', 10)"


class Counted:
    """The rows of one SELECT, which are counted."""

    def __init__(self, found: Rows, text: str, sent: list[tuple[str, int]]) -> None:
        self._found, self._text, self._sent = found, text, sent
        self.cancel, self.close = found.cancel, found.close

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        count = 0
        for batch in self._found.batches():
            count += batch.num_rows
            yield batch
        self._sent.append((self._text, count))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the statements that go out, with the numbers of their rows."""
    found: list[tuple[str, int]] = []
    for kind in (PostgresSource, DuckdbSource):

        def counted(source: Any, text: str, before: Callable[[Any, str], Rows] = kind.rows) -> Rows:
            return Counted(before(source, text), text, found)

        monkeypatch.setattr(kind, "rows", counted)
    return found


@pytest.fixture(scope="module")
def session(sources: Sources) -> Session:
    """Return a session with 30,000 rows at the source `pg`, copies of them as `many`, and `keys` here."""
    sources.connection.execute(
        "CREATE TABLE many AS SELECT g AS id, 'n' || g AS name, g / 2.0 AS half, g % 7 AS seven"
        " FROM generate_series(1, 30000) g; ANALYZE many"
    )
    session = sources.session
    session.update("REFRESH DATABASE pg")
    session.update("CREATE TABLE many AS SELECT * FROM pg.many")
    session.update(f"CREATE TABLE keys AS SELECT * FROM (VALUES {KEYS}) AS v(k, name, w)")
    return session


JOINS = [
    ("SELECT m.id, w FROM {}many m JOIN keys ON m.id = k ORDER BY w", 3),
    ("SELECT m.id, w FROM keys JOIN {}many m ON k = m.id AND w > m.seven ORDER BY w", 3),
    ("SELECT k, m.name FROM keys LEFT JOIN {}many m ON k = m.id ORDER BY k, m.name, w", 3),
    ("SELECT count(*) AS n FROM {}many WHERE id IN (SELECT k FROM keys)", 3),
    ("SELECT w FROM keys WHERE NOT EXISTS (SELECT 1 FROM {}many m WHERE m.id = k) ORDER BY w", 3),
    ("SELECT w FROM keys WHERE EXISTS (SELECT 1 FROM {}many m WHERE m.name = keys.name) ORDER BY w", 3),
    ("SELECT m.id FROM {}many m JOIN keys USING (name) WHERE m.name LIKE 'n%' ORDER BY 1", 3),
    ("SELECT m.id FROM {}many m JOIN (SELECT k + 1 AS k FROM keys WHERE w < 8) q ON m.id = q.k ORDER BY 1", 2),
    ("SELECT m.id FROM {}many m JOIN (SELECT max(k) AS k FROM keys WHERE k < 100 GROUP BY w) q ON m.id = q.k", 2),
    ("SELECT q.c FROM keys JOIN (SELECT id, count(*) AS c FROM {}many GROUP BY id) q ON q.id = k ORDER BY w", 3),
    ("SELECT m.id FROM {}many m JOIN keys ON m.id = k WHERE false", 0),
    ("SELECT m.id FROM {}many m JOIN (SELECT k FROM keys WHERE w > 99) q ON m.id = q.k", 0),
]
"""Queries, and the rows that they need from the source."""
WHOLE = [
    "SELECT count(*) AS n FROM {}many m FULL JOIN keys ON m.id = k",
    "SELECT count(k) AS n FROM {}many m LEFT JOIN keys ON m.id = k",
    "SELECT count(*) AS n FROM {}many m WHERE NOT EXISTS (SELECT 1 FROM keys WHERE m.id = k)",
    "SELECT count(*) AS n FROM {}many WHERE id NOT IN (SELECT k FROM keys WHERE k IS NOT NULL)",
    "SELECT count(*) AS n FROM {}many m JOIN keys ON m.id < k",
    "SELECT count(*) AS n FROM {}many m JOIN keys ON m.seven + m.id = k",
    "SELECT count(*) AS n FROM {}many m JOIN (SELECT k FROM keys WHERE random() < 2) q ON m.id = q.k",
    "SELECT count(*) AS n FROM {}many m JOIN many o ON m.id = o.id",
]
"""Queries that need all rows of the source."""


@pytest.mark.parametrize(("text", "count"), JOINS)
def test_rows_with_keys_come_back(session: Session, sent: list[tuple[str, int]], text: str, count: int) -> None:
    """The rows equal those over a copy, and no other rows moved."""
    found = rows(session, text.format("pg."))
    assert found == rows(session, text.format(""))
    assert sum(number for _, number in sent) == count


@pytest.mark.parametrize("text", WHOLE)
def test_other_joins(session: Session, sent: list[tuple[str, int]], text: str) -> None:
    """A join that needs rows without a partner, or has no list of few keys, gets all rows."""
    assert rows(session, text.format("pg.")) == rows(session, text.format(""))
    assert sum(number for _, number in sent) >= 29_990


def test_two_sources(session: Session, sent: list[tuple[str, int]]) -> None:
    """The keys of one source limit the rows of the other one."""
    found = rows(session, "SELECT m.id FROM pg.many m JOIN dd.t ON m.id = t.i ORDER BY 1")
    assert found == rows(session, "SELECT m.id FROM many m JOIN t ON m.id = t.i ORDER BY 1")
    assert [(number, "IN (" in text) for text, number in sent if "many" in text] == [(3, True)]


def test_calls(session: Session, sent: list[tuple[str, int]]) -> None:
    """A model is asked about the rows of the join, as over a copy."""
    text = "SELECT ai_filter('Is it good?', m.name) AS a, w FROM {}many m JOIN keys ON m.id = k ORDER BY w"
    assert ask(session, text.format("pg.")).rows == ask(session, text.format("")).rows
    assert {number for _, number in sent} == {3}


def test_explained(session: Session) -> None:
    """EXPLAIN says that the keys limit the scan, and finds no keys for it."""
    lines = explained(session, "SELECT m.id FROM pg.many m JOIN keys ON m.id = k")
    assert lines["sent to pg"].endswith('WHERE t."id" IN (the keys of the join)')


def test_switched_off(session: Session, sent: list[tuple[str, int]]) -> None:
    """Without rules, all rows come back."""
    text = "SELECT m.id, w FROM pg.many m JOIN keys ON m.id = k ORDER BY w"
    wanted = rows(session, text)
    sent.clear()
    session.update("SET flightllm.rules = off")
    assert rows(session, text) == wanted
    assert [number for _, number in sent] == [30_000]
    session.update("RESET flightllm.rules")
