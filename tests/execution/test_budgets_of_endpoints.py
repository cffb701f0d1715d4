"""Budgets at endpoints that report no tokens, or wrong ones: what the endpoint truly did stays within the limits."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from flightllm.access.store import Allowance, User
from flightllm.access.tables import today
from flightllm.config import Config, EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask
from tests.endpoints import Body, Reply, endpoint_of

INPUT, OUTPUT = 2.0, 8.0
SERIES = "generate_series(1, 60) AS g(value)"
TEXT = "Many words were said about it, and each of them was true and good. " * 12
"""An answer of 800 characters."""
Report = Callable[[int, int], object]


@dataclass
class Meter:
    """A model that answers each prompt by `TEXT`, and counts every token; `report` is the usage that it admits."""

    report: Report
    status: Callable[[int], int] = lambda _: 200
    """The status of the request with this number."""
    lock: Lock = field(default_factory=Lock)
    tokens: int = 0
    cost: float = 0.0
    requests: int = 0

    def reply(self, _: str, body: Body, number: int) -> Reply:
        """Answer, and charge for it."""
        self.requests = number + 1
        status = self.status(number)
        if status == 429:
            return status, {"error": {"message": "slow down"}}, {"retry_after": "0"}
        prompt = sum(len(one["content"]) for one in body["messages"]) // 4 + 9
        most = body.get("max_tokens") or body["max_completion_tokens"]
        text = TEXT[: 4 * most]
        with self.lock:
            self.tokens += prompt + len(text) // 4
            self.cost += (prompt * INPUT + len(text) // 4 * OUTPUT) / 1e6
        if status != 200:
            return status, {"error": {"message": "timed out at the gateway"}}, {}
        usage = self.report(prompt, len(text) // 4)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return 200, {"id": "1", "choices": [choice], **({} if usage is None else {"usage": usage})}, {}


@pytest.fixture(scope="module")
def meter() -> Meter:
    """Return the meter of this file's endpoint; each test sets it to 0."""
    return Meter(details(0))


@pytest.fixture(scope="module")
def database(meter: Meter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database whose model is at the meter, with a table of texts."""
    with endpoint_of(meter.reply) as endpoint:
        options = {"base_url": endpoint.url, "timeout": 30}
        config = EngineConfig("openai", "m", 4, options, price_input=INPUT, price_output=OUTPUT)
        with closing(Database.open(Config(engine=config, data_folder=tmp_path_factory.mktemp("data")))) as database:
            with closing(database.session()) as session:
                session.update(f"CREATE TABLE t AS SELECT value AS id, 'text ' || value AS t FROM {SERIES}")
                session.update("GRANT SELECT ON t TO user")
            yield database


@pytest.fixture
def session(meter: Meter, database: Database) -> Iterator[Session]:
    """Open a session of a new user, for whom no lengths of answers are known; the meter is at 0."""
    meter.report, meter.status = details(0), lambda _: 200
    meter.tokens, meter.cost = 0, 0.0
    name = f"user{meter.requests}"
    database.access.store.add_user(User(name, "admin", allowance=Allowance(tokens=5_000)))
    with closing(database.session(database.access.store.user(name).principal)) as session:
        yield session


def last(session: Session) -> dict[str, Any]:
    """Return the row of the query with calls that ended last."""
    return ask(session, "SELECT * FROM system.queries WHERE calls > 0 ORDER BY started_at DESC LIMIT 1").rows[0]


def details(cached: object) -> Report:
    """Report right tokens with a number of cached tokens."""
    return lambda prompt, answer: {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


WRONG: dict[str, Report] = {
    "none": lambda *_: None,
    "null": lambda *_: {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
    "no object": lambda *_: "many",
    "zeros": lambda *_: {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "only the total": lambda prompt, answer: {"total_tokens": prompt + answer},
    "only the prompt": lambda prompt, _: {"prompt_tokens": prompt},
    "negative": lambda prompt, answer: {"prompt_tokens": -prompt, "completion_tokens": -answer},
    "texts": lambda prompt, answer: {"prompt_tokens": str(prompt), "completion_tokens": str(answer)},
    "fractions": lambda prompt, answer: {"prompt_tokens": prompt + 0.5, "completion_tokens": answer + 0.5},
    "too few": lambda *_: {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "too many": lambda *_: {"prompt_tokens": 10**8, "completion_tokens": 10**8, "total_tokens": 2 * 10**8},
    "cached beyond the prompt": details(10**6),
}


@pytest.mark.parametrize("limit", ["max_tokens", "max_cost"])
@pytest.mark.parametrize("form", WRONG)
def test_wrong_usage(meter: Meter, session: Session, form: str, limit: str) -> None:
    """The limit holds by the endpoint's own count, the counters are near it, and are marked as estimated."""
    meter.report = WRONG[form]
    most = {"max_tokens": 4_000, "max_cost": 0.02}[limit]
    sql = f"SELECT ai_gen('Say {form} {limit}', t, max_tokens => 250) AS g FROM t LIMIT 25"
    rows = ask(session, sql, **{limit: str(most)}).rows
    row = last(session)
    told = ask(session, f"SELECT estimated FROM system.ai_calls WHERE query_id = '{row['query_id']}'").rows
    true = {"max_tokens": meter.tokens, "max_cost": meter.cost}[limit]
    seen = {"max_tokens": row["prompt_tokens"] + row["completion_tokens"], "max_cost": row["cost"]}[limit]
    answered = sum(one["g"] is not None for one in rows)
    assert most / 3 < true <= most
    assert 0 < answered < 25
    assert seen == pytest.approx(true, rel=0.2)
    assert [one["estimated"] for one in told] == [row["estimated"]] == [row["answered"]]
    assert "budget is spent" in row["error"]


def test_right_usage(meter: Meter, session: Session) -> None:
    """Right numbers are kept to the token, and nothing is marked."""
    ask(session, "SELECT ai_gen('Say right', t, max_tokens => 250) FROM t LIMIT 25", max_tokens="4000")
    row = last(session)
    assert row["prompt_tokens"] + row["completion_tokens"] == meter.tokens <= 4_000
    assert row["estimated"] == 0


@pytest.mark.parametrize("form", ["none", "right"])
def test_lost_answers(meter: Meter, session: Session, form: str) -> None:
    """A try whose answer was lost on its way counts as spent, a refused one does not."""
    meter.report = WRONG.get(form, details(0))
    first = meter.requests
    meter.status = lambda number: (504, 200, 429, 200, 200)[(number - first) % 5]
    ask(session, f"SELECT ai_gen('Say lost {form}', t, max_tokens => 250) FROM t LIMIT 8", max_tokens="3000")
    assert 1_000 < meter.tokens <= 3_000
    assert last(session)["estimated"] > 0


def test_a_days_budget(meter: Meter, database: Database, session: Session) -> None:
    """A user's daily budget holds across queries, also where prompts on their way are not awaited."""
    meter.report = WRONG["none"]
    ask(session, "SELECT id FROM t WHERE ai_filter('Is it short?', t) IS NULL LIMIT 1")
    ask(session, "SELECT ai_gen('Say daily', t, max_tokens => 250) FROM t")
    _, tokens, _ = database.access.store.spent(last(session)["user"], today())
    assert 1_000 < meter.tokens <= tokens <= 5_000


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_explain_analyze(meter: Meter, session: Session, optimizer: str) -> None:
    """EXPLAIN ANALYZE says which figures are estimates."""
    meter.report = WRONG["none"]
    off = {"optimizer": optimizer, "cache": "off"}
    sql = "EXPLAIN ANALYZE SELECT ai_gen('Say why', t, max_tokens => 50) FROM t WHERE id < 4"
    told = {line["plan_type"]: line["plan"] for line in ask(session, sql, **off).rows}
    assert "actual, estimated" in told["total"]
    assert "the tokens of 3 answers are estimated" in told["notes"]
    plan = ask(session, sql.replace("ANALYZE", "(ANALYZE, FORMAT json)"), **off).rows[0]["plan"]
    assert json.loads(plan)["total"]["actual"]["estimated"] == 3


@dataclass
class Thinker:
    """A model that thinks for 1,500 tokens before it answers, does not show its thoughts, and charges for them."""

    lock: Lock = field(default_factory=Lock)
    tokens: int = 0
    cost: float = 0.0

    def reply(self, _: str, body: Body, __: int) -> Reply:
        """Answer with an empty text where the token limit is within the thoughts."""
        prompt = sum(len(one["content"]) for one in body["messages"]) // 4 + 9
        most = body.get("max_tokens") or body["max_completion_tokens"]
        answer = min(most, 1_502)
        with self.lock:
            self.tokens += prompt + answer
            self.cost += (prompt * INPUT + answer * OUTPUT) / 1e6
        text, reason = ("", "length") if most < 1_502 else ("good", "stop")
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
        return 200, {"id": "1", "choices": [choice], "usage": usage}, {}


@pytest.mark.parametrize(("in_flight", "optimizer"), [(1, "on"), (4, "off")])
@pytest.mark.parametrize(
    ("limit", "most", "enough"),
    [("max_tokens", 3_000, False), ("max_cost", 0.024, False), ("max_tokens", 90_000, True), ("max_cost", 0.72, True)],
)
def test_a_model_that_thinks_unexpectedly(
    tmp_path: Path, *, in_flight: int, optimizer: str, limit: str, most: float, enough: bool
) -> None:
    """The tokens that the engine adds for thoughts are reserved before each try, also before a prompt's first."""
    thinker = Thinker()
    with endpoint_of(thinker.reply) as endpoint:
        options = {"base_url": endpoint.url}
        config = EngineConfig("openai", "m", in_flight, options, price_input=INPUT, price_output=OUTPUT)
        with (
            closing(Database.open(Config(engine=config, data_folder=tmp_path))) as database,
            closing(database.session()) as session,
        ):
            sql = f"SELECT ai_gen('Say it', 'text ' || value, max_tokens => 20) AS g FROM {SERIES} LIMIT 12"
            rows = ask(session, sql, **{limit: str(most)}, optimizer=optimizer).rows
            row = last(session)
    true = {"max_tokens": thinker.tokens, "max_cost": thinker.cost}[limit]
    assert 0 < true <= most
    assert row["prompt_tokens"] + row["completion_tokens"] == thinker.tokens
    assert row["calls"] == len(endpoint.bodies)
    assert {one["g"] for one in rows} <= {"good", None}
    assert all(one["g"] == "good" for one in rows) == enough
    assert enough or "budget is spent" in row["error"]
