"""Deferred statements with equal prompts: one of them asks, the others wait for its answers."""

from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.batch_endpoint import BatchProvider, batch_provider
from tests.deferred.test_deferral import ROWS, deferred, ended, in_order, opened, rows_of, state_of
from tests.servers import await_true

_SQL = "SELECT id, ai_gen('Say', x) AS a FROM t"
_LONG = 10_000
"""Looks at a job that is not done before the test wants it."""


def _sent(database: Database, provider: BatchProvider, session: Session, sql: str) -> str:
    """Defer a statement and wait until its prompts are at the provider."""
    jobs = len(provider.jobs)
    batch_id = deferred(session, sql)
    await_true(lambda: len(provider.jobs) > jobs and state_of(database, batch_id)["state"] == "waiting")
    return batch_id


def _waits(database: Database, session: Session, sql: str, answers: int) -> str:
    """Defer a statement and wait until it waits for so many answers of others."""
    batch_id = deferred(session, sql)
    said = f"it waits for {answers} answers of other deferred statements"
    await_true(lambda: state_of(database, batch_id)["error"] == said)
    return batch_id


def test_an_equal_statement_waits(tmp_path: Path) -> None:
    """The second of two equal statements asks nothing, costs nothing, and has the same rows."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        first = _sent(database, provider, session, _SQL)
        second = _waits(database, session, _SQL, ROWS)
        provider.looks = 1
        rows = [ended(database, one) for one in (first, second)]
        assert [row["state"] for row in rows] == ["done", "done"]
        assert rows[1]["error"] is None
        assert rows[0]["price"]
        assert not rows[1]["price"]
        results = [database.deferred.result(one, session.principal).to_pylist() for one in (first, second)]
        assert in_order(results[0]) == in_order(results[1])
        assert len(provider.jobs) == 1
        assert set(provider.asked.values()) == {1}
        assert not provider.chats


def test_the_answers_of_a_failed_statement(tmp_path: Path) -> None:
    """A statement whose table is gone cannot put its answers into the cache; an equal one later has them."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        sql, copied = _SQL.replace("FROM t", "FROM s"), "CREATE TABLE s AS SELECT * FROM t"
        session.update(copied)
        first = _sent(database, provider, session, sql)
        session.update("DROP TABLE s")
        provider.looks = 1
        assert "not found" in ended(database, first)["error"]
        session.update(copied)
        second = ended(database, deferred(session, sql))
        assert (second["state"], second["rows"]) == ("done", ROWS)
        assert not second["price"]
        assert len(provider.jobs) == 1
        assert not provider.chats


@pytest.mark.slow
def test_statements_that_begin_together(tmp_path: Path) -> None:
    """Many statements that overlap and begin at the same time ask each prompt once, also in later rounds."""
    texts = [f"SELECT ai_gen('Say', x) AS a FROM t WHERE ai_filter('Good?', x) AND id > {n}" for n in range(6)]
    with batch_provider(looks=2) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        ids = [deferred(session, text) for text in texts]
        assert {ended(database, one)["state"] for one in ids} == {"done"}
        assert set(provider.asked.values()) == {1}
        for one, text in zip(ids, texts, strict=True):
            found = database.deferred.result(one, session.principal).to_pylist()
            assert in_order(rows_of(session, text)) == in_order(found)
        assert not provider.chats


@pytest.mark.slow
def test_the_prompts_that_no_other_has_are_sent(tmp_path: Path) -> None:
    """A statement sends its own prompts at once, beside those that it waits for."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        _sent(database, provider, session, f"{_SQL} WHERE id <= 10")
        second = _sent(database, provider, session, _SQL)
        assert [len(lines) for lines in provider.submitted] == [10, ROWS - 10]
        provider.looks = 1
        assert ended(database, second)["rows"] == ROWS
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_a_cancelled_statement_leaves_its_prompts(tmp_path: Path) -> None:
    """If the statement that asks is cancelled, the one that waits takes what came, and sends the rest."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        first = _sent(database, provider, session, _SQL)
        second = _waits(database, session, _SQL, ROWS)
        database.deferred.cancel(first, session.principal)
        assert ended(database, first)["state"] == "cancelled"
        provider.looks = 1
        assert ended(database, second)["rows"] == ROWS
        assert [len(lines) for lines in provider.submitted] == [ROWS, ROWS - 1]  # one answer came
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_a_failed_job_leaves_its_prompts(tmp_path: Path) -> None:
    """If the provider refuses the job, the statement that waits sends the prompts itself."""
    with batch_provider(looks=_LONG, refuses="busy", taken=1) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        first = _sent(database, provider, session, _SQL)
        second = _waits(database, session, _SQL, ROWS)
        provider.taken, provider.looks = 0, 1
        assert ended(database, first)["state"] == "failed"
        assert "busy" in ended(database, second)["error"]
        assert [len(lines) for lines in provider.submitted] == [ROWS, ROWS]
        assert not provider.asked


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_a_restart_and_a_removal(cached: bool, tmp_path: Path) -> None:
    """A statement waits over a restart; it has its answers also if the other is removed before it reads them."""
    with batch_provider(looks=_LONG) as provider:
        with opened(tmp_path, provider, cached=cached) as database:
            session = database.session()
            first = _sent(database, provider, session, _SQL)
            second = _waits(database, session, _SQL, ROWS)
        provider.looks = 1
        with opened(tmp_path, provider, cached=cached) as database:
            assert ended(database, first)["state"] == "done"
            database.deferred.remove(first, database.session().principal)
            assert ended(database, second)["rows"] == ROWS
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_a_removed_owner(tmp_path: Path) -> None:
    """Without a kept cache, the answers of a removed statement go to the one that waits and has own prompts left."""
    with batch_provider(looks=_LONG) as provider:
        with opened(tmp_path, provider, cached=False) as database:
            session = database.session()
            first = _sent(database, provider, session, f"{_SQL} WHERE id <= 10")
            second = _sent(database, provider, session, _SQL)
            provider.done.add("batch_1")
            assert ended(database, first)["state"] == "done"
            database.deferred.remove(first, session.principal)
        provider.looks = 1
        with opened(tmp_path, provider, cached=False) as database:
            assert ended(database, second)["rows"] == ROWS
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_users_share_as_they_share_the_cache(tmp_path: Path) -> None:
    """Users share prompts in batches as they share cached answers: not where a row filter hides rows from one."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        for name in ("ann", "ben", "cat"):
            database.access.store.add_user(User(name, "user"))
        admin = database.session()
        for name in ("ann", "ben", "cat"):
            admin.update(f"GRANT SELECT ON t TO {name}")
        admin.update("CREATE ROW FILTER ON t TO cat AS id > 0")
        sessions = [database.session(Principal(name, "user")) for name in ("ann", "ben", "cat")]
        first = _sent(database, provider, sessions[0], _SQL)
        second = _waits(database, sessions[1], _SQL, ROWS)
        third = _sent(database, provider, sessions[2], _SQL)
        provider.looks = 1
        assert [ended(database, one)["state"] for one in (first, second, third)] == ["done"] * 3
        assert len(provider.jobs) == 2
        assert set(provider.asked.values()) == {2}


@pytest.mark.slow
def test_an_immediate_statement_does_not_wait(tmp_path: Path) -> None:
    """An immediate statement beside an equal deferred one buys its answers at once; both have the first answers."""
    with batch_provider(looks=_LONG) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = _sent(database, provider, session, _SQL)
        found = rows_of(session, _SQL)
        provider.looks = 1
        assert ended(database, batch_id)["state"] == "done"
        assert in_order(database.deferred.result(batch_id, session.principal).to_pylist()) == in_order(found)
        assert set(provider.asked.values()) == set(provider.chats.values()) == {1}
