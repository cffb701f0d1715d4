"""Statements of several sessions on one table at the same time: none is lost, none is seen by half."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flightllm.session.database import Database
from tests.databases import open_database, rows

WRITERS, ROWS = 3, 400


@pytest.mark.parametrize("times", [5, pytest.param(25, marks=pytest.mark.slow)])
def test_changes_and_queries_together(tmp_path: Path, times: int) -> None:
    """Inserts, updates and deletes all take effect, and each query sees whole statements only."""
    database = open_database(tmp_path)
    database.session().update("CREATE TABLE t (writer BIGINT, n BIGINT, mark BIGINT)")
    errors: list[Exception] = []
    writers = [_thread(partial(insert, database, number, times), errors) for number in range(WRITERS)]
    done = threading.Event()
    others = [_thread(partial(look, database, done), errors), _thread(partial(mark, database, done), errors)]
    for thread in writers:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert errors == []
    every = "SELECT writer, count(*) AS c, count(DISTINCT n) AS d FROM t GROUP BY writer ORDER BY writer"
    wanted = [{"writer": number, "c": times * ROWS, "d": times} for number in range(WRITERS)]
    assert rows(database.session(), every) == wanted
    database.close()
    again = open_database(tmp_path)
    assert rows(again.session(), every) == wanted
    again.close()


def insert(database: Database, number: int, times: int) -> None:
    """Add statements' rows, each with a number of its own, and remove others at once."""
    session = database.session()
    for n in range(times):
        values = f"SELECT {number} AS w, {n} AS n, 0 AS m FROM generate_series(1, {ROWS})"
        assert session.update(f"INSERT INTO t {values}") == ROWS
        assert (
            session.update(f"INSERT INTO t SELECT {number} AS w, -1 AS n, {n} AS m FROM generate_series(1, 10)") == 10
        )
        assert session.update(f"DELETE FROM t WHERE writer = {number} AND n = -1") == 10


def look(database: Database, done: threading.Event) -> None:
    """Check that every statement's rows are all there, or none, and all marked alike."""
    while not done.is_set():
        sql = "SELECT writer, n, count(*) AS c, count(DISTINCT mark) AS m FROM t WHERE n >= 0 GROUP BY writer, n"
        for row in rows(database.session(), sql):
            assert (row["c"], row["m"]) == (ROWS, 1)


def mark(database: Database, done: threading.Event) -> None:
    """Mark all rows anew again and again."""
    while not done.is_set():
        database.session().update("UPDATE t SET mark = mark + 1 WHERE n >= 0")


def _thread(work: Callable[[], None], errors: list[Exception]) -> threading.Thread:
    def guarded() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- of a thread: the test looks at it
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    return thread
