"""Statements that wait for a provider's batch endpoint: their rows, what they ask, and what goes wrong."""

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.principal import Principal
from flightllm.config import CacheConfig, Config, EngineConfig
from flightllm.engines.registry import Engines
from flightllm.errors import (
    BudgetExceededError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from flightllm.llm.batch_endpoint import BatchLimits
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.batch_endpoint import BatchProvider, batch_provider
from tests.servers import await_true

BATCH = {"delivery": "batch"}
ROWS = 24


@contextmanager
def opened(folder: Path, endpoint: BatchProvider, *, cached: bool = True, **options: object) -> Iterator[Database]:
    """Open a database whose engine asks the stand-in, with the table `t`."""
    given = {"base_url": endpoint.url, "provider": "openai", "api_key_env": "", **options}
    engine = EngineConfig("openai", "gpt-test", price_input=1.0, price_output=2.0, options=given)
    database = Database.open(Config(engine=engine, data_folder=folder, cache=CacheConfig(enabled=cached)))
    try:
        rows = f"SELECT value AS id, 'row ' || value AS x FROM generate_series(1, {ROWS})"
        database.session().update(f"CREATE TABLE IF NOT EXISTS t AS {rows}")
        yield database
    finally:
        database.close()


def rows_of(session: Session, sql: str, **settings: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    result = session.execute(sql, settings=settings)
    rows: list[dict[str, Any]] = pa.Table.from_batches(list(result.batches), result.schema).to_pylist()
    return rows


def deferred(session: Session, sql: str) -> str:
    """Defer a statement and return its id."""
    [handle] = rows_of(session, sql, **BATCH)
    return str(handle["id"])


def state_of(database: Database, batch_id: str) -> dict[str, Any]:
    """Return a row of `system.batches`."""
    [row] = rows_of(database.session(), f"SELECT * FROM system.batches WHERE id = '{batch_id}'")
    return row


def ended(database: Database, batch_id: str) -> dict[str, Any]:
    """Wait until a statement has ended; return its row of `system.batches`."""
    await_true(lambda: state_of(database, batch_id)["state"] in {"done", "failed", "cancelled"})
    return state_of(database, batch_id)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in an order that does not depend on the run."""
    return sorted(map(str, rows))


QUERIES = {
    "one call": "SELECT id, ai_gen('Say', x) AS a FROM t",
    "a call after a filter": "SELECT id, ai_gen('Say', x) AS a FROM t WHERE ai_filter('Good?', x)",
    "CASE": "SELECT CASE WHEN ai_filter('A?', x) THEN ai_gen('b', x) ELSE coalesce(ai_gen('c', x), 'z') END AS v"
    " FROM t",
    "NOT and IS NULL": "SELECT id FROM t WHERE NOT ai_filter('A?', x) OR ai_gen('b', x) IS NULL",
    "groups of answers": "SELECT c, count(*) AS n FROM (SELECT ai_classify(x, ['p', 'q']) AS c FROM t) AS s GROUP BY c",
    "a call over an aggregate": "SELECT ai_gen('sum', string_agg(g, ',' ORDER BY id)) AS s"
    " FROM (SELECT id, ai_gen('first', x) AS g FROM t) AS s",
    "two calls over other columns": "SELECT id, ai_gen('one', x) AS a, ai_gen('two', CAST(id AS TEXT)) AS b FROM t",
    "UNION ALL": "SELECT ai_gen('one', x) AS a FROM t UNION ALL SELECT ai_gen('two', x) AS a FROM t",
    "the same call twice": "SELECT ai_gen('one', x) AS a FROM t UNION ALL SELECT ai_gen('one', x) AS a FROM t",
    "a join": "SELECT a.id, b.id AS j FROM t AS a JOIN t AS b ON ai_filter('Same?', a.x, b.x)"
    " WHERE a.id < 4 AND b.id < 4",
    "a LIMIT": "SELECT id FROM t WHERE ai_filter('Good?', x) ORDER BY id LIMIT 3",
    "an order by comparisons": "SELECT id FROM t ORDER BY ai_rank('Best first', x, method => 'pairwise'), id LIMIT 3",
    "comparisons in both orders": "SELECT id, ai_compare('Which is better?', x, 'a row', both_orders => true) AS c"
    " FROM t",
    "groups in levels": "SELECT id % 2 AS g, ai_agg(x || repeat(' word', 20 + 200 * CAST(id % 2 AS INT)), 'Sum up',"
    " context_tokens => 1024) AS s FROM t GROUP BY 1",
    "topics": "SELECT id, ai_topic(x, k => 4) AS topic FROM t",
    "duplicates": "SELECT id, ai_dedup('the northern branch of ' || x) AS kept FROM t",
    "an object": "SELECT id, ai_extract(x, ['name', 'year']) AS r FROM t",
}
"""Queries whose answers decide about other prompts, or about rows."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BatchProvider, Database]]:
    """Open a stand-in and a database of all queries."""
    with batch_provider() as provider, opened(tmp_path_factory.mktemp("both"), provider) as database:
        yield provider, database


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [pytest.param(sql, marks=() if name == "CASE" else pytest.mark.slow, id=name) for name, sql in QUERIES.items()],
)
def test_the_rows_are_those_of_the_immediate_query(sql: str, both: tuple[BatchProvider, Database]) -> None:
    """A deferred query has the rows of the immediate one, asks no prompt twice, and no more than that one."""
    provider, database = both
    session = database.session()
    database.cache.clear()
    provider.asked.clear()
    provider.chats.clear()
    batch_id = deferred(session, sql)
    row = ended(database, batch_id)
    assert row["state"] == "done", row
    assert set(provider.asked.values()) == {1}
    assert not provider.chats
    found = database.deferred.result(batch_id, session.principal).to_pylist()
    assert in_order(rows_of(session, sql)) == in_order(found)
    assert not provider.chats  # the answers are in the cache
    assert in_order(rows_of(session, sql, cache="off")) == in_order(found)
    if "LIMIT" not in sql:
        assert provider.chats.keys() == provider.asked.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "rounds"),
    [
        ("SELECT ai_gen('one', x) AS a, ai_gen('two', CAST(id AS TEXT)) AS b FROM t", 1),
        ("SELECT ai_gen('one', x) AS a FROM t UNION ALL SELECT ai_gen('two', x) AS a FROM t", 1),
        (
            (
                "SELECT v, w FROM (SELECT id, ai_gen('one', x) AS v FROM t) AS a"
                " LEFT JOIN (SELECT id, ai_gen('two', x) AS w FROM t) AS b ON a.id = b.id"
            ),
            1,
        ),
        ("SELECT ai_gen('two', CAST(id AS TEXT)) AS b FROM t WHERE ai_filter('Good?', x)", 2),
        ("SELECT ai_gen('two', ai_gen('one', x)) AS b FROM t", 2),
        (
            (
                "SELECT id % 2 AS g, ai_agg(x || repeat(' word', 20 + 200 * CAST(id % 2 AS INT)), 'Sum up',"
                " context_tokens => 1024, max_tokens => 100) AS s FROM t GROUP BY 1"
            ),
            3,
        ),
    ],
)
def test_rounds(sql: str, rounds: int, tmp_path: Path) -> None:
    """Calls that need no answers of one another are asked in one round; only an answer that decides takes another."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        row = ended(database, deferred(session, sql))
        assert (row["state"], row["rounds"]) == ("done", rounds)
        found = database.deferred.result(row["id"], session.principal).to_pylist()
        assert in_order(rows_of(session, sql, cache="off")) == in_order(found)
        assert provider.chats.keys() == provider.asked.keys()


def test_changes_happen_once(tmp_path: Path) -> None:
    """INSERT … SELECT and CREATE TABLE AS return a handle, and store their rows once."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        made = deferred(session, "CREATE TABLE made AS SELECT id, ai_gen('Say', x) AS a FROM t")
        assert ended(database, made)["rows"] == ROWS
        added = deferred(session, "INSERT INTO made SELECT id, ai_gen('Tell', x) FROM t")
        assert ended(database, added)["state"] == "done"
        assert rows_of(session, "SELECT count(*) AS n, count(a) AS a FROM made") == [{"n": 2 * ROWS, "a": 2 * ROWS}]
        assert set(provider.asked.values()) == {1}
        with pytest.raises(InvalidInputError, match="changes a table"):
            database.deferred.result(added, session.principal)


def test_a_change_happens_once_whatever_becomes_of_its_rows(tmp_path: Path) -> None:
    """A process ends between a change and its note: the next one does not repeat it, also if its file is gone."""
    with batch_provider() as provider:
        with opened(tmp_path, provider) as database:
            session = database.session()
            session.update("CREATE TABLE made (id BIGINT, a TEXT)")
            sql = "INSERT INTO made SELECT id, ai_gen('Say', x) FROM t"
            assert ended(database, deferred(session, sql))["state"] == "done"
            session.update("INSERT INTO made VALUES (0, 'later')")  # merges the small files
            session.update("DELETE FROM made WHERE id > 20")
        with closing(sqlite3.connect(tmp_path / "batches" / "batches.sqlite", isolation_level=None)) as store:
            store.execute("UPDATE batches SET state = 'collecting', ended = NULL, rows = NULL")
        with opened(tmp_path, provider) as database:
            [row] = rows_of(database.session(), "SELECT id FROM system.batches")
            assert ended(database, row["id"])["state"] == "done"
            assert rows_of(database.session(), "SELECT count(*) AS n FROM made") == [{"n": 21}]


def test_a_model_that_opens_slowly_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a statement waits for its model before it makes jobs, others use the file of deferred statements."""
    using, slow, waits = Engines.using, threading.Event(), threading.Event()

    def slowly(self: Engines, names: Any, *given: Any) -> Any:
        if threading.current_thread().name.startswith("batch ") and not given:
            waits.set()
            slow.wait(30)
        return using(self, names, *given)

    with batch_provider() as provider, opened(tmp_path, provider) as database:
        monkeypatch.setattr(Engines, "using", slowly)
        batch_id = deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t")
        assert waits.wait(30)
        assert state_of(database, batch_id)["state"] == "collecting"
        slow.set()
        assert ended(database, batch_id)["state"] == "done"


@pytest.mark.slow
def test_an_update_call_keeps_the_change(tmp_path: Path) -> None:
    """A client that sends INSERT as an update gets no row; the statement is in `system.batches`."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE TABLE made (id BIGINT, a TEXT)")
        session.update("SET flightllm.delivery = 'batch'")
        assert session.update("INSERT INTO made SELECT id, ai_gen('Say', x) FROM t") == -1
        [row] = rows_of(session, "SELECT id FROM system.batches")
        assert ended(database, row["id"])["state"] == "done"
        assert rows_of(session, "SELECT count(*) AS n FROM made") == [{"n": ROWS}]


@pytest.mark.slow
def test_the_handle_has_both_prices(tmp_path: Path) -> None:
    """The handle and `system.batches` have the price at once and in a batch, and later what the answers cost."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        [handle] = rows_of(database.session(), "SELECT ai_gen('Say', x) AS a FROM t", **BATCH)
        assert handle["prompts"] == ROWS
        assert handle["price"] == pytest.approx(handle["immediate_price"] / 2)
        row = ended(database, handle["id"])
        assert row["price_estimated"] == handle["price"]
        tokens = sum(len(prompt.split()) for prompt in provider.asked)
        assert row["price"] == pytest.approx((tokens + 2 * 2 * ROWS) / 2_000_000)
        assert row["answered"] == row["sent"] == row["prompts"] == ROWS


@pytest.mark.slow
def test_explain_has_both_prices(tmp_path: Path) -> None:
    """EXPLAIN has the price at once and in a batch, whatever the setting is; without such an endpoint neither."""
    sql = "EXPLAIN SELECT ai_gen('Say', x) AS a FROM t"
    with batch_provider() as provider, opened(tmp_path / "a", provider) as database:
        provider.looks = 10_000  # answers would make EXPLAIN cheaper
        session = database.session()
        [handle] = rows_of(session, sql.removeprefix("EXPLAIN "), **BATCH)
        for delivery in ("immediate", "batch"):
            told = {row["plan_type"]: row["plan"] for row in rows_of(session, sql, delivery=delivery)}
            prices = dict(part.removesuffix(" (chosen)").split(": $") for part in told["delivery"].split(", "))
            assert float(prices["batch"]) == pytest.approx(handle["price"], rel=1e-4)
            assert float(prices["immediate"]) == pytest.approx(handle["immediate_price"], rel=1e-4)
            assert f"{delivery}: ${prices[delivery]} (chosen)" in told["delivery"]
    with batch_provider() as provider, opened(tmp_path / "b", provider, batch="off") as database:
        assert "delivery" not in {row["plan_type"] for row in rows_of(database.session(), sql)}


def test_limits_hold_at_the_price_of_the_batch(tmp_path: Path) -> None:
    """The handle is refused where the batch's price is above a limit; the statement runs below the immediate price."""
    sql = "SELECT ai_gen('Say', x) AS a FROM t WHERE ai_filter('Good?', x)"
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        told = {row["plan_type"]: row["plan"] for row in rows_of(session, f"EXPLAIN {sql}")}
        prices = dict(part.removesuffix(" (chosen)").split(": $") for part in told["delivery"].split(", "))
        for limits in ({"max_cost": f"{float(prices['batch']) * 0.9:f}"}, {"max_calls": "5"}, {"max_tokens": "50"}):
            with pytest.raises(BudgetExceededError, match="the estimate for the query is"):
                rows_of(session, sql, **BATCH, **limits)
        assert rows_of(session, "SELECT * FROM system.batches") == []
        [handle] = rows_of(session, sql, **BATCH, max_calls=str(3 * ROWS))
        row = ended(database, handle["id"])
        assert row["state"] == "done", row
        again = "SELECT ai_gen('Tell', x) AS a FROM t"
        [handle] = rows_of(session, again, **BATCH)
        most = f"{(handle['price'] + handle['immediate_price']) / 2:f}"
        [limited] = rows_of(session, again.replace("Tell", "Show"), **BATCH, max_cost=most)
        row = ended(database, limited["id"])
        assert (row["state"], row["rows"]) == ("done", ROWS), row


def test_removal(tmp_path: Path) -> None:
    """An ended statement is removed by its owner, or by the server in time; its texts are in no file then."""
    folder = tmp_path / "batches"
    with batch_provider(looks=3) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        kept, gone = (deferred(session, f"SELECT ai_gen('Say{n}', x) AS a FROM t") for n in range(2))
        with pytest.raises(InvalidInputError, match="cancel it first"):
            database.deferred.remove(gone, session.principal)
        ended(database, kept), ended(database, gone)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
        assert modes.pop("batches") == 0o700
        assert set(modes.values()) == {0o600}
        with pytest.raises(NotFoundError):
            database.deferred.remove(gone, Principal("eve", "user"))
        database.deferred.remove(gone, session.principal)
        assert rows_of(session, "SELECT id FROM system.batches") == [{"id": kept}]
        assert not (folder / f"{gone}.arrow").exists()
        files = b"".join(path.read_bytes() for path in folder.iterdir())
        assert (b"Say0" in files, b"Say1" in files) == (True, False)
    with closing(sqlite3.connect(folder / "batches.sqlite", isolation_level=None)) as store:
        store.execute("UPDATE batches SET ended = ended - 31 * 86400")
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        await_true(lambda: not rows_of(database.session(), "SELECT id FROM system.batches"))
        assert not list(folder.glob("*.arrow"))


@pytest.mark.slow
def test_rows_go_one_by_one(tmp_path: Path) -> None:
    """A job has a request for each row, so the handle and EXPLAIN count rows, whatever the setting or the call says."""
    calls = {"ai_gen('Say', x)": {"rows_per_request": "8"}, "ai_gen('Tell', x, rows_per_request => 8)": {}}
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        for call, settings in calls.items():
            sql = f"SELECT {call} AS a FROM t"
            told = rows_of(session, f"EXPLAIN {sql}", **BATCH, **settings)
            assert "each row by itself: a batch endpoint gets each row by itself" in str(told)
            [handle] = rows_of(session, sql, **BATCH, **settings)
            assert handle["prompts"] == ended(database, handle["id"])["sent"] == ROWS


@pytest.mark.slow
def test_the_requests_are_those_of_the_immediate_path(tmp_path: Path) -> None:
    """A line has the body that the engine sends at once, with constraint, temperature and token limit."""
    seen = list[dict[str, Any]]()
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        provider.bodies = seen
        ended(database, deferred(database.session(), "SELECT ai_classify(x, ['p', 'q']) AS c FROM t"))
        lines, seen[:] = [dict(body) for body in seen], []
        rows_of(database.session(), "SELECT ai_classify(x, ['p', 'q']) AS c FROM t", cache="off")
        assert sorted(map(str, lines)) == sorted(map(str, seen))


@pytest.mark.slow
def test_results_in_disorder(tmp_path: Path) -> None:
    """Results can come in any order, twice, and beside lines of nobody: each row has its own answer."""
    with batch_provider(untidy=True) as provider, opened(tmp_path, provider) as database:
        session, sql = database.session(), "SELECT id, ai_gen('Say', x) AS a FROM t"
        batch_id = deferred(session, sql)
        row = ended(database, batch_id)
        assert (row["state"], row["answered"]) == ("done", ROWS)
        found = database.deferred.result(batch_id, session.principal).to_pylist()
        assert in_order(rows_of(session, sql, cache="off")) == in_order(found)


@pytest.mark.slow
def test_expired_prompts_are_sent_again(tmp_path: Path) -> None:
    """A job that expires keeps its answers; the other prompts cost nothing, and are sent again."""
    with batch_provider(expires_after=5) as provider, opened(tmp_path, provider) as database:
        row = ended(database, deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t"))
        assert (row["state"], row["rows"]) == ("done", ROWS)
        assert [len(lines) for lines in provider.submitted] == [ROWS, ROWS - 5]
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_expiry_that_lasts_is_a_failure_of_rows(tmp_path: Path) -> None:
    """Prompts that no job answers fail for their rows alone."""
    with batch_provider(expires_after=5, expiring=9) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, "SELECT id, ai_gen('Say', x, on_error => 'struct') AS a FROM t")
        row = ended(database, batch_id)
        assert row["state"] == "done"
        assert len(provider.jobs) == 3
        answers = [one["a"] for one in database.deferred.result(batch_id, session.principal).to_pylist()]
        errors = [one["error"] for one in answers if one["error"]]
        assert len(errors) == ROWS - 15
        assert "did not process the prompt: the batch expired" in errors[0]


def test_a_failing_row_is_one_row(tmp_path: Path) -> None:
    """A refused prompt fails for its row; an overloaded one is sent again, and no answer is bought twice."""
    busy = [2]

    def fails(prompt: str) -> tuple[int, str] | None:
        if re.search(r"row 7\b", prompt):
            return 400, "flagged"
        if re.search(r"row 9\b", prompt) and busy[0]:
            busy[0] -= 1
            return 503, "overloaded"
        return None

    with batch_provider(fails=fails) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, "SELECT id, ai_gen('Say', x, on_error => 'struct') AS a FROM t")
        row = ended(database, batch_id)
        assert row["state"] == "done", row
        found = {one["id"]: one["a"] for one in database.deferred.result(batch_id, session.principal).to_pylist()}
        assert "flagged" in found[7]["error"]
        assert [number for number, one in found.items() if one["error"]] == [7]
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_a_change_fails_as_a_whole(tmp_path: Path) -> None:
    """A change whose row fails changes nothing, and says which answer failed; the answers stay known."""
    fails = lambda prompt: (400, "flagged") if re.search(r"row 7\b", prompt) else None  # noqa: E731 - one line
    with batch_provider(fails=fails) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        row = ended(database, deferred(session, "CREATE TABLE made AS SELECT ai_gen('Say', x) AS a FROM t"))
        assert row["state"] == "failed"
        assert "flagged" in row["error"]
        with pytest.raises(FlightLLMError):
            rows_of(session, "SELECT * FROM made")
        rows_of(session, "SELECT ai_gen('Say', x) AS a FROM t")
        assert not provider.chats


@pytest.mark.slow
def test_a_change_whose_table_is_gone(tmp_path: Path) -> None:
    """The answers to a change that has become impossible stay known: they are paid for."""
    with batch_provider(looks=10_000) as provider, opened(tmp_path, provider) as database:
        session, asked = database.session(), "SELECT id, ai_gen('Say', x) AS a FROM t"
        session.update("CREATE TABLE made (id BIGINT, a TEXT)")
        ids = [deferred(session, f"INSERT INTO made {asked}"), deferred(session, f"CREATE TABLE other AS {asked}")]
        await_true(lambda: bool(provider.jobs))
        session.update("DROP TABLE made")
        session.update("CREATE TABLE other (id BIGINT)")
        provider.looks = 1
        said = [ended(database, one)["error"] for one in ids]
        assert "there is no table 'made'" in said[0]
        assert "'other' exists" in said[1]
        assert len(rows_of(session, asked)) == ROWS
        assert set(provider.asked.values()) == {1}
        assert not provider.chats


def test_a_refused_job_fails_the_statement(tmp_path: Path) -> None:
    """The provider's reason for refusing a file is the error of the statement."""
    with batch_provider(refuses="billing limit") as provider, opened(tmp_path, provider) as database:
        row = ended(database, deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t"))
        assert row["state"] == "failed"
        assert "billing limit" in row["error"]


def test_a_refused_job_keeps_the_answers_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement whose second job is refused stops the first one, and keeps the answers that are paid for."""
    monkeypatch.setattr("flightllm.engines.openai.batches.OpenAIBatches.limits", BatchLimits(ROWS // 2, 1 << 20))
    with batch_provider(looks=10_000, refuses="too many", taken=1) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        row = ended(database, deferred(session, "SELECT ai_gen('Say', x) AS a FROM t"))
        assert (row["state"], row["answered"]) == ("failed", ROWS)
        assert "too many" in row["error"]
        assert sum(provider.asked.values()) == 1
        rows_of(session, "SELECT ai_gen('Say', x) AS a FROM t")
        assert sum(provider.chats.values()) == ROWS - 1


def test_a_model_that_cannot_open_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement waits while its model cannot be opened, and goes on then."""
    using, down = Engines.using, [False]

    def sometimes(self: Engines, names: Any, *given: Any) -> Any:
        if down[0]:
            raise EngineUnavailableError("the engine is gone")
        return using(self, names, *given)

    with batch_provider(looks=10_000) as provider, opened(tmp_path, provider) as database:
        batch_id = deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t")
        await_true(lambda: bool(provider.jobs))
        monkeypatch.setattr(Engines, "using", sometimes)
        down[0] = True
        await_true(lambda: state_of(database, batch_id)["error"] is not None)
        assert state_of(database, batch_id)["error"] == "it waits, because the engine is gone"
        down[0], provider.looks = False, 1
        assert ended(database, batch_id)["state"] == "done"


@pytest.mark.slow
def test_cancel_keeps_the_answers(tmp_path: Path) -> None:
    """A cancelled statement ends without rows; the answers that came are in the cache."""
    with batch_provider(looks=10_000) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, "CREATE TABLE made AS SELECT ai_gen('Say', x) AS a FROM t")
        await_true(lambda: bool(provider.jobs))
        with pytest.raises(NotFoundError):
            database.deferred.cancel(batch_id, Principal("eve", "user"))
        database.deferred.cancel(batch_id, session.principal)
        assert ended(database, batch_id)["state"] == "cancelled"
        assert sum(provider.asked.values()) == 1
        with pytest.raises(FlightLLMError):
            rows_of(session, "SELECT * FROM made")
        rows_of(session, "SELECT ai_gen('Say', x) AS a FROM t")
        assert sum(provider.chats.values()) == ROWS - 1


@pytest.mark.slow
def test_without_a_kept_cache(tmp_path: Path) -> None:
    """A server that keeps no answers over a restart still has those of its jobs."""
    with batch_provider() as provider:
        with opened(tmp_path, provider, cached=False) as database:
            batch_id = deferred(database.session(), "SELECT id, ai_gen('Say', x) AS a FROM t WHERE ai_filter('?', x)")
            await_true(lambda: len(provider.jobs) > 1)
        with opened(tmp_path, provider, cached=False) as database:
            assert ended(database, batch_id)["state"] == "done"
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_an_unknown_endpoint_shows_its_form_first(tmp_path: Path) -> None:
    """At an unknown endpoint, one prompt of each form is asked at once: a job in a wrong form takes a day."""
    with batch_provider() as provider, opened(tmp_path, provider, provider="", batch="on") as database:
        row = ended(database, deferred(database.session(), "SELECT ai_classify(x, ['p', 'q']) AS c FROM t"))
        assert row["state"] == "done"
        assert sum(provider.asked.values()) == ROWS - 1
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "settings", "said"),
    [
        ("SELECT ai_gen('Say', x) AS a FROM t", {"cache": "off"}, "flightllm.cache is off"),
        ("SELECT ai_gen('Say', x) AS a FROM t", {"optimizer": "off"}, "flightllm.optimizer is off"),
        ("SELECT ai_gen('Say', x, fresh => true) AS a FROM t", {}, "leave fresh out"),
        ("SELECT ai_filter('a', x, recall => 0.9) AS a FROM t", {}, "has a promise"),
        ("UPDATE t SET x = ai_gen('Say', x)", {}, "UPDATE cannot wait"),
        ("EXPLAIN ANALYZE SELECT ai_gen('Say', x) AS a FROM t", {}, "EXPLAIN ANALYZE runs the statement at once"),
    ],
)
def test_what_cannot_wait_is_refused(sql: str, settings: dict[str, str], said: str, tmp_path: Path) -> None:
    """A statement that cannot be asked in rounds is refused at once, with what to write instead."""
    with (
        batch_provider() as provider,
        opened(tmp_path, provider) as database,
        pytest.raises(FlightLLMError, match=re.escape(said)),
    ):
        rows_of(database.session(), sql, **BATCH, **settings)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT ai_gen('Say', x || CAST(random() AS TEXT)) AS a FROM t", "random"),
        ("SELECT ai_gen('Say', y) AS a FROM (SELECT x || CAST(now() AS TEXT) AS y FROM t) AS s", "now"),
        ("SELECT ai_gen('Say', x) AS a FROM t WHERE CURRENT_DATE > DATE '2020-01-01'", "current_date"),
        ("CREATE TABLE made AS SELECT ai_gen('Say', y) AS a FROM changing", "uuid"),
    ],
)
def test_values_that_change_are_refused(sql: str, name: str, tmp_path: Path) -> None:
    """A value that differs in each round would make new prompts in each round, and buy answers without end."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE VIEW changing AS SELECT x || CAST(uuid() AS TEXT) AS y FROM t")
        with pytest.raises(UnsupportedError, match=f"{name} has another value in each round"):
            rows_of(session, sql, **BATCH)
        assert not provider.jobs


def test_rounds_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement with new prompts in round after round fails in the end; its answers stay in the cache."""
    monkeypatch.setattr("flightllm.deferred.deferral._MOST_ROUNDS", 1)
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        row = ended(database, deferred(session, "SELECT ai_gen('Say', x) AS a FROM t WHERE ai_filter('Good?', x)"))
        assert row["state"] == "failed"
        assert "other prompts in each of 1 rounds" in row["error"]
        rows_of(session, "SELECT id FROM t WHERE ai_filter('Good?', x)")
        assert not provider.chats


@pytest.mark.slow
def test_an_engine_without_batches_is_refused(tmp_path: Path) -> None:
    """An engine without a batch endpoint is an error that says what to do; a query without AI calls runs at once."""
    with batch_provider() as provider, opened(tmp_path, provider, batch="off") as database:
        session = database.session()
        with pytest.raises(UnsupportedError, match=r"has no batch endpoint: SET flightllm\.delivery"):
            deferred(session, "SELECT ai_gen('Say', x) AS a FROM t")
        assert rows_of(session, "SELECT count(*) AS n FROM t", **BATCH) == [{"n": ROWS}]


@pytest.mark.slow
def test_other_users_see_nothing(tmp_path: Path) -> None:
    """Only the owner and an admin see a deferred statement and its rows."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        batch_id = deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t")
        ended(database, batch_id)
        eve = Principal("eve", "user")
        with pytest.raises(NotFoundError):
            database.deferred.result(batch_id, eve)
