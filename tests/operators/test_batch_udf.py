"""AI calls as batch functions: with reuse where no operator can take them, without where the optimizer is off."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import InternalError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, canonical, small_database
from tests.using_engines import Scripted, using

FALLBACK = "SELECT unnest([1, 2]) AS n, id, ai_gen('x', note) AS g FROM people"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


def counted(session: Session, sql: str, **settings: str) -> tuple[int, int, int, int]:
    """Run a query and return its distinct prompts, calls, cache hits, and the rows that its calls saw."""
    (site,) = ask(session, sql, **settings).record.call_rows()
    return site["distinct_prompts"], site["calls"], site["cache_hits"], site["rows"]


def test_fallback_reuses(session: Session) -> None:
    """A query that no operator can take asks each prompt once, and keeps the answers for others."""
    assert counted(session, FALLBACK) == (4, 4, 0, 9)
    assert counted(session, FALLBACK) == (4, 0, 4, 9)
    assert ask(session, "SELECT ai_gen('x', note) FROM people").calls == 0


def test_fallback_without_cache(session: Session) -> None:
    """Without the cache answers are shared within the query alone."""
    for _ in range(2):
        assert counted(session, FALLBACK, cache="off") == (4, 4, 0, 9)


def test_off_is_the_plain_baseline(session: Session) -> None:
    """Without the optimizer every row is asked, whatever is known, and nothing is kept."""
    for _ in range(2):
        assert counted(session, FALLBACK, optimizer="off") == (7, 7, 0, 9)
    assert counted(session, FALLBACK) == (4, 4, 0, 9)
    assert counted(session, FALLBACK, optimizer="off") == (7, 7, 0, 9)


@pytest.mark.slow
def test_same_rows(session: Session) -> None:
    """Rows are the same with and without reuse; many batches, NULLs and calls without fields included."""
    calls = "ai_gen('x', note) AS a, ai_gen('Tell a joke') AS b, ai_gen('x', t.*, on_error => 'struct') AS c"
    rows = "SELECT name, note FROM people CROSS JOIN generate_series(1, 2000)"
    sql = f"SELECT unnest([1]) AS n, {calls} FROM ({rows}) t"
    on, off = ask(session, sql, cache="off"), ask(session, sql, optimizer="off")
    assert canonical(on.table) == canonical(off.table)
    assert on.calls == 4 + 1 + 7 - 1  # one row's only value makes the same prompt as its note
    assert off.calls == 2000 * (7 + 9 + 8)


def test_failures(tmp_path: Path) -> None:
    """Failed prompts are counted for each of their rows either way."""
    database = small_database(tmp_path, {"fail_containing": "tea"})
    for optimizer in ("on", "off"):
        ran = ask(database.session(), FALLBACK, optimizer=optimizer)
        assert ran.record.row()["failed_rows"] == 3
        assert {row["id"] for row in ran.rows if row["g"] is None} == {1, 2, 4, 6, 8}
    database.close()


@pytest.mark.parametrize("optimizer", ["on", pytest.param("off", marks=pytest.mark.slow)])
def test_defect(database: Database, optimizer: str) -> None:
    """A defect inside a function is an internal error, and shows no code to the user."""

    def broken(_: object) -> str:
        raise ZeroDivisionError("secret")

    with pytest.raises(InternalError, match="internal error, query_id=") as raised:
        ask(using(database, Scripted(broken)).session(), FALLBACK, optimizer=optimizer)
    assert "secret" not in str(raised.value)
