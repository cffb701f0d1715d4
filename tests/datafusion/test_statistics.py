"""A query on whose statistics DataFusion's estimates fail runs without statistics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import ask, explained, open_database, rows

DIFFERENCES = ("paid - due > 3", "paid - due = 4", "current_date - due > 30 AND paid - due >= 4", "paid - 3 > due + 0")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with dates and times in stored tables."""
    database = open_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    session.update("CREATE TABLE d (due DATE, paid DATE)")
    session.update("INSERT INTO d VALUES ('2024-01-01', '2024-01-05'), ('2024-01-01', '2024-01-02')")
    session.update("CREATE TABLE m (d TIMESTAMP, t TIMESTAMP)")
    session.update(
        "INSERT INTO m VALUES ('2023-12-31', '2023-12-31 23:59:59'), ('2024-02-29', '2024-02-29 12:00:00'),"
        " ('2024-03-01', '2024-03-02')"
    )
    yield session
    database.close()


@pytest.mark.parametrize("condition", DIFFERENCES)
def test_differences_of_dates(session: Session, condition: str) -> None:
    """WHERE, HAVING, an AI call beside it, and EXPLAIN take a difference of dates."""
    assert len(rows(session, f"SELECT due FROM d WHERE {condition}")) == 1
    assert len(rows(session, f"SELECT due, paid FROM d GROUP BY due, paid HAVING {condition}")) == 1
    called = f"SELECT ai_gen('Describe it', CAST(due AS VARCHAR)) AS x FROM d WHERE {condition}"
    assert [len(ask(session, called, optimizer=setting).rows) for setting in ("on", "off")] == [1, 1]
    assert "Filter" in explained(session, f"SELECT due FROM d WHERE {condition}")["physical_plan"]


def test_selectivity_of_casts(session: Session) -> None:
    """A comparison with a cast of a column has an estimate beyond 1."""
    assert len(rows(session, "SELECT d FROM m WHERE d < t::date")) == 1


@pytest.mark.parametrize("condition", DIFFERENCES)
def test_changes_of_rows(session: Session, condition: str) -> None:
    """UPDATE, DELETE, MERGE and CREATE TABLE AS find the rows."""
    session.update("CREATE OR REPLACE TABLE c AS SELECT * FROM d")
    session.update(f"CREATE OR REPLACE TABLE found AS SELECT * FROM c WHERE {condition}")
    assert session.update(f"UPDATE c SET paid = paid WHERE {condition}") == 1
    assert session.update(f"DELETE FROM c WHERE {condition}") == 1
    merged = f"MERGE INTO found USING d ON found.paid = d.paid WHEN MATCHED AND {condition} THEN DELETE"
    assert session.update(merged.replace("due", "d.due").replace("paid -", "d.paid -")) == 1


def test_other_errors_stay(session: Session) -> None:
    """An error of another kind is raised."""
    with pytest.raises(Exception, match="zero"):
        rows(session, "SELECT due FROM d WHERE 1 / (extract(year FROM due) - 2024) > 3")
