"""Deferred statements whose prompts go to Anthropic's batches, against a server with the documented rules."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines import create_engine
from flightllm.errors import EngineUnavailableError
from flightllm.llm.batch_endpoint import batch_endpoint
from flightllm.session.database import Database
from tests.deferred.test_deferral import BATCH, ROWS, deferred, ended, in_order, rows_of
from tests.engines.anthropic.test_engine import asking
from tests.message_batches import MessageBatches
from tests.messages_api import Body, MessagesApi, RefusedError, invalid, serving
from tests.servers import await_true

pytest.importorskip("anthropic", reason="the extra 'anthropic' is not installed")
OPTIONS = {"api_key_env": "", "batch": "on"}
CLASSES = "SELECT id, ai_classify(x, ['p', 'q']) AS c FROM t"
TEXTS = "SELECT id, ai_gen('Say', x, on_error => 'struct') AS a FROM t"


@contextmanager
def opened(folder: Path, api: MessagesApi) -> Iterator[Database]:
    """Open a database whose engine asks the server, with the table `t`."""
    with serving(api):
        options = {**OPTIONS, "base_url": api.url}
        engine = EngineConfig(
            "anthropic", "claude-sonnet-4-5", price_input=3.0, price_cached=0.3, price_output=15.0, options=options
        )
        database = Database.open(Config(engine=engine, data_folder=folder))
        try:
            rows = f"SELECT value AS id, 'row ' || value AS x FROM generate_series(1, {ROWS})"
            database.session().update(f"CREATE TABLE t AS {rows}")
            yield database
        finally:
            database.close()


def spoken(body: Body) -> str:
    """Return what distinguishes a request."""
    return json.dumps(body, sort_keys=True)


@pytest.mark.slow
def test_rows_and_price(tmp_path: Path) -> None:
    """The rows are those of the immediate query, each prompt is asked once, at half the price of its tokens."""
    api = MessagesApi(say=lambda body: "q" if re.search(r"row \d*[13579]\b", spoken(body)) else "p", seconds=0.0)
    with opened(tmp_path, api) as database:
        session = database.session()
        batch_id = deferred(session, CLASSES)
        row = ended(database, batch_id)
        assert (row["state"], row["error"], row["answered"]) == ("done", None, ROWS)
        assert max(Counter(map(spoken, api.bodies)).values()) == 1
        assert row["price"] == pytest.approx(api.price(3.0, 15.0) / 2)
        assert not api.refused
        found = database.deferred.result(batch_id, session.principal).to_pylist()
        assert {one["c"] for one in found} == {"p", "q"}
        lines, api.bodies[:] = sorted(map(spoken, api.bodies)), []
        assert in_order(rows_of(session, CLASSES, cache="off")) == in_order(found)
        assert sorted(map(spoken, api.bodies)) == lines


def test_failures_are_of_rows(tmp_path: Path) -> None:
    """An error is one row's, an overloaded request is sent again, and an expired batch keeps its answers."""
    busy = [1]

    def behave(body: Body, _number: int) -> tuple[int, Body | bytes, dict[str, str]] | None:
        if re.search(r"row 7\b", spoken(body)):
            return invalid("flagged").reply
        if re.search(r"row 9\b", spoken(body)) and busy[0]:
            busy[0] -= 1
            return RefusedError(529, "overloaded_error", "Overloaded").reply
        return None

    batches = MessageBatches(expires_after=12)
    with opened(tmp_path, MessagesApi(behave=behave, seconds=0.0, batches=batches)) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        row = ended(database, batch_id)
        assert (row["state"], row["error"]) == ("done", None)
        found = {one["id"]: one["a"] for one in database.deferred.result(batch_id, session.principal).to_pylist()}
        assert "flagged" in found[7]["error"]
        assert [number for number, one in found.items() if one["error"]] == [7]
        sent = [len(requests) for requests in batches.requests.values()]
        assert sent in ([ROWS, ROWS - 12], [ROWS, ROWS - 12 + 1], [ROWS, ROWS - 12, 1])


def test_a_batch_without_a_reply_is_found(tmp_path: Path) -> None:
    """A batch whose reply was lost is known by the ids of its requests, once it has ended, and not bought again."""
    batches = MessageBatches(drops_replies=1, looks=3)
    api = MessagesApi(seconds=0.0, batches=batches)
    with opened(tmp_path, api) as database:
        session = database.session()
        [handle] = rows_of(session, TEXTS, **BATCH)
        row = ended(database, handle["id"])
        assert row["state"] == "done", row
        assert list(batches.made) == ["msgbatch_1"]


def test_a_running_batch_of_nobody_is_awaited() -> None:
    """While a batch runs that can be the lost one, nothing is sent again; another job's batch is not."""
    api = MessagesApi(batches=MessageBatches(looks=4))
    with asking(api, batch="on") as engine:
        endpoint = batch_endpoint(engine)
        assert endpoint is not None
        line = endpoint.line("1", '{"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": []}')
        made = endpoint.submit("a-1-1", [line])
        assert endpoint.find("a-1-10", 0.0) is None  # this process knows whose batch it is
        restarted = create_engine(EngineConfig("anthropic", "claude-sonnet-4-5", 8, {**OPTIONS, "base_url": api.url}))
        with closing(restarted):
            other = batch_endpoint(restarted)
            assert other is not None
            with pytest.raises(EngineUnavailableError, match="does not tell before its end"):
                other.find("a-1-1", 0.0)
            await_true(lambda: other.state(made).ended)
            assert other.find("a-1-1", 0.0) == made
            assert other.find("a-1-10", 0.0) is None
            assert other.find("b-1-1", 0.0) is None


@pytest.mark.slow
def test_untidy_results_of_divided_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that are rejected as too large are divided, a busy provider is asked again, and doubles are ignored."""
    monkeypatch.setattr("flightllm.deferred.jobs.FIRST_PAUSE", 0.05)
    batches = MessageBatches(untidy=True, busy=1, most=10)
    with opened(tmp_path, MessagesApi(seconds=0.0, batches=batches)) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        row = ended(database, batch_id)
        assert (row["state"], row["error"], row["answered"], row["failed"]) == ("done", None, ROWS, 0)
        assert sorted(len(requests) for requests in batches.requests.values()) == [6] * 4
        found = database.deferred.result(batch_id, session.principal).to_pylist()
        assert {one["a"]["value"] for one in found} == {"fine"}


@pytest.mark.slow
def test_cancel_keeps_the_answers(tmp_path: Path) -> None:
    """A cancelled statement ends without rows; the answer that came is in the cache, and is not bought again."""
    api = MessagesApi(seconds=0.0, batches=MessageBatches(looks=10_000))
    with opened(tmp_path, api) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        await_true(lambda: bool(api.batches.made))
        database.deferred.cancel(batch_id, session.principal)
        assert ended(database, batch_id)["state"] == "cancelled"
        assert len(api.bodies) == 1
        rows_of(session, TEXTS)
        assert len(api.bodies) == ROWS
        assert max(Counter(map(spoken, api.bodies)).values()) == 1


GUIDE = " ".join(f"Rule {number}: weigh each word of the text." for number in range(150))
"""An instruction above the floor of the cache."""
GUIDED = f"SELECT id, ai_gen('{GUIDE}', x) AS a FROM t"


def delivery(database: Database, sql: str) -> dict[str, float]:
    """Return both prices that EXPLAIN shows."""
    [line] = [row for row in rows_of(database.session(), f"EXPLAIN {sql}") if "immediate: $" in str(row)]
    return {name: float(price) for name, price in re.findall(r"(immediate|batch): \$([\d.e-]+)", str(line))}


def test_one_prompt_stores_the_start_for_the_others(tmp_path: Path) -> None:
    """A long common start is stored by one prompt of the statement, and read by all others: EXPLAIN knows the price."""
    api = MessagesApi(say=lambda _: "an answer of about as many words as a forecast expects", seconds=0.0)
    with opened(tmp_path, api) as database:
        told = delivery(database, GUIDED)
        session = database.session()
        batch_id = deferred(session, GUIDED)
        row = ended(database, batch_id)
        assert (row["state"], row["error"], row["answered"]) == ("done", None, ROWS)
        assert [len(requests) for requests in api.batches.requests.values()] == [1, ROWS - 1]
        assert max(Counter(map(spoken, api.bodies)).values()) == 1
        assert not api.refused
        assert api.total("hour") > 1_024
        bill = api.price(3.0, 15.0) / 2
        assert row["price"] == pytest.approx(bill)
        assert bill < 0.35 * api.uncached(3.0, 15.0) / 2
        assert told["batch"] == pytest.approx(bill, rel=0.2)  # no tokenizer of Claude is public
        found = database.deferred.result(batch_id, session.principal).to_pylist()
        assert in_order(rows_of(session, GUIDED, cache="off")) == in_order(found)


@pytest.mark.slow
def test_a_start_of_two_prompts_is_not_stored(tmp_path: Path) -> None:
    """Storing for an hour costs twice the input, so a start that only two prompts have is not worth it."""
    api = MessagesApi(seconds=0.0)
    with opened(tmp_path, api) as database:
        told = delivery(database, f"{GUIDED} WHERE id < 3")
        row = ended(database, deferred(database.session(), f"{GUIDED} WHERE id < 3"))
        assert [len(requests) for requests in api.batches.requests.values()] == [2]
        assert api.total("cache_creation_input_tokens") == 0
        assert row["price"] == pytest.approx(api.uncached(3.0, 15.0) / 2)
        assert told["batch"] == pytest.approx(row["price"], rel=0.15)


@pytest.mark.slow
def test_a_start_that_was_not_stored_is_not_marked(tmp_path: Path) -> None:
    """When the prompt that goes ahead fails, the others have no marks: each would pay for storing the start."""
    failing = [1]

    def behave(_body: Body, _number: int) -> tuple[int, Body | bytes, dict[str, str]] | None:
        if failing[0]:
            failing[0] -= 1
            return RefusedError(529, "overloaded_error", "Overloaded").reply
        return None

    api = MessagesApi(behave=behave, seconds=0.0)
    with opened(tmp_path, api) as database:
        row = ended(database, deferred(database.session(), GUIDED))
        assert (row["state"], row["failed"]) == ("done", 0)
        assert [len(requests) for requests in api.batches.requests.values()] == [1, ROWS - 1, 1]
        assert api.total("cache_creation_input_tokens") == 0
        assert row["price"] == pytest.approx(api.uncached(3.0, 15.0) / 2)
