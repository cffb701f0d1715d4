"""One bad row costs no other row its answer, and a slow endpoint gets fewer requests."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from flightllm.config import EngineConfig, RecoveryConfig
from flightllm.engines import Engine, create_engine
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.engine import Completion, Parameters, Request
from flightllm.session.database import Database
from tests.databases import open_database, rows
from tests.endpoints import Behave, Body, Endpoint, Reply, answer, endpoint_of, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.engines.openai.engine import OpenAIEngine
from flightllm.engines.openai.faults import Fault, FaultKind
from flightllm.engines.openai.verdicts import EndpointHistory, Trial, Verdict


@contextmanager
def serving(
    behave: Behave, patience: float = 0.0, window: int = 8, **options: object
) -> Iterator[tuple[Engine, Endpoint]]:
    """Run an endpoint and an engine on it."""
    with endpoint_of(behave) as endpoint:
        engine = create_engine(EngineConfig("openai", "any", window, {"base_url": endpoint.url, **options}))
        assert isinstance(engine, OpenAIEngine)
        engine.patience = patience
        try:
            yield engine, endpoint
        finally:
            engine.close()


def requests(rows_: int) -> list[Request]:
    """Return one request per row: ROW0, ROW1 and so on."""
    return [Request(number, f"ROW{number}.", Parameters(), "ai_gen", "", ()) for number in range(rows_)]


def run(engine: Engine, rows_: int) -> list[Completion]:
    """Return the completions of some rows, in their order."""
    return sorted(engine.generate(iter(requests(rows_)), lambda: False), key=lambda one: one.id)


def said(body: Body) -> str:
    """Return the prompt of a request."""
    return str(body["messages"][-1]["content"])


def sent(endpoint: Endpoint) -> Counter[str]:
    """Return how many requests each prompt had."""
    return Counter(map(said, endpoint.bodies))


FAULTS: list[tuple[int, str | Body, str, int]] = [
    (429, "Request too large for the model: Limit 30000, Requested 45123", "rejected", 1),
    (429, "Rate limit reached on tokens per minute: Limit 300, Requested 451.", "rejected", 1),
    (500, "input is too large to process. increase the physical batch size", "rejected", 1),
    (403, "flagged by moderation", "denies access", 1),
    (451, "unavailable for legal reasons", "rejected", 1),
    (404, "No endpoints found that support this", "no API", 1),
    (402, "payment required for this prompt", "no quota left", 4),
    (429, "slow down", "limits the rate", 4),
    (503, "the worker died", "overloaded or gone", 4),
    (504, "a page", "overloaded or gone", 4),
    (529, "overloaded", "overloaded or gone", 4),
    (500, "a bug", "failed", 4),
    (408, "too late", "failed", 4),
    (418, "a teapot", "failed", 4),
    (200, {"error": {"message": "upstream failed", "code": 502}}, "overloaded or gone", 4),
    (200, {"choices": []}, "0 items for 1 prompts", 4),
    (200, {"choices": [{"index": 0, "message": {"content": None}}]}, "no text", 4),
    (200, {"choices": [{"index": 0, "message": {"content": ""}, "finish_reason": "error"}]}, "aborted", 4),
]
"""The status, the text or the body, what the row's error says, and the most requests for the row."""


def faulty(path: str, body: Body, number: int) -> Reply:
    """Answer each row after a while, but every third row by one of the faults, at once."""
    del number
    row = int(said(body).strip("ROW.")) if "ROW" in said(body) else 1
    if row % 3 or row // 3 >= len(FAULTS):
        time.sleep(0.02)  # noqa: TID251 - the endpoint takes its time
        return answer(path, body)
    status, reply, _, _ = FAULTS[row // 3]
    return refuse(status, reply) if isinstance(reply, str) else (status, reply, {})


def test_rows_fail_alone() -> None:
    """A row that fails again and again has its own error; each other row is sent once and has its answer."""
    with serving(faulty, patience=300, max_retries=1) as (engine, endpoint):
        found = run(engine, 3 * len(FAULTS) + 9)
        counts = sent(endpoint)
        for number, (*_, message, most) in enumerate(FAULTS):
            assert message in (found[3 * number].error or "")
            assert counts.pop(f"ROW{3 * number}.") <= most
        assert [one.id for one in found if one.error] == [3 * number for number in range(len(FAULTS))]
        assert {count for prompt, count in counts.items() if prompt.startswith("ROW")} == {1}


@pytest.mark.parametrize(("status", "reply"), [(503, "the worker died"), (403, "flagged")])
def test_the_last_row_fails(status: int, reply: str) -> None:
    """A row that fails while no other is in flight is told from a dead endpoint by a short question."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(status, reply) if said(body) == "ROW4." else answer(path, body)

    with serving(behave, patience=300, max_retries=0, window=1) as (engine, endpoint):
        assert [one.id for one in run(engine, 5) if one.error] == [4]
        assert sum(sent(endpoint).values()) <= 8


@pytest.mark.parametrize("status", [500, 503, 408])
def test_few_tries_where_others_succeed(status: int) -> None:
    """Where nearly all rows succeed, a row that fails again and again ends after a few tries."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(status) if said(body) == "ROW30." else answer(path, body)

    with serving(behave, patience=300) as (engine, endpoint):
        assert [one.id for one in run(engine, 60) if one.error] == [30]
        assert sent(endpoint)["ROW30."] <= 4


@pytest.mark.parametrize("kind", [FaultKind.GONE, FaultKind.FAILED, FaultKind.BROKEN, FaultKind.TIMEOUT])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_faults_by_chance(kind: FaultKind, share: float) -> None:
    """The higher the share of rows that fail by chance, the more failures show that one row is at fault."""
    chance, lost, rows_ = random.Random(1), 0, 4_000  # noqa: S311 - a seed makes the test repeatable
    now = count()
    history = EndpointHistory(8, 300, lambda: float(next(now)))
    for _ in range(rows_):
        trial, verdict = Trial(sent=float(next(now))), Verdict.AGAIN
        while verdict is Verdict.AGAIN and chance.random() < share:
            history.succeeded()  # another row
            verdict = history.judge(trial, Fault(kind, "no"))
            trial.sent = float(next(now))
        if verdict is Verdict.AGAIN:
            history.succeeded(trial)
        lost += verdict is not Verdict.AGAIN
    assert lost <= rows_ / 1_000


def ticking(clock: Iterator[int]) -> Callable[[], float]:
    """Return a clock that goes on by a second each time when it is read."""
    return lambda: float(next(clock))


@pytest.mark.parametrize(
    ("kind", "share"), [(FaultKind.TIMEOUT, 0.3), (FaultKind.TIMEOUT, 0.1), (FaultKind.FAILED, 0.3)]
)
def test_failures_that_begin_after_a_quiet_time(kind: FaultKind, share: float) -> None:
    """Where failures begin after many successes, two requests in flight are enough to see the new rate."""
    chance, lost = random.Random(1), 0  # noqa: S311 - a seed makes the test repeatable
    for _ in range(200):
        clock = count()
        history = EndpointHistory(8, 300, ticking(clock))
        for _ in range(200):
            history.succeeded(Trial(sent=float(next(clock))))
        flying, left = [Trial(sent=float(next(clock))) for _ in range(2)], 20
        while flying:
            trial = flying.pop(0)
            verdict = Verdict.AGAIN
            if failed := chance.random() < share:
                verdict = history.judge(trial, Fault(kind, "no"))
                if verdict is Verdict.PROBE:
                    verdict = history.after_probe(trial, Fault(kind, "no"), succeeded=True)
            else:
                history.succeeded(trial)
            lost += verdict is not Verdict.AGAIN
            if failed and verdict is Verdict.AGAIN:
                trial.sent = float(next(clock))
                flying.append(trial)
            elif left:
                flying.append(Trial(sent=float(next(clock))))
                left -= 1
    assert lost <= 8


def test_a_row_that_is_always_too_late() -> None:
    """A row whose answer never comes in time fails alone, and the others go on meanwhile."""

    def behave(path: str, body: Body, _: int) -> Reply:
        if said(body) == "ROW7.":
            time.sleep(1)  # noqa: TID251 - longer than the timeout
        return answer(path, body)

    with serving(behave, patience=300, max_retries=1, timeout=0.3) as (engine, _):
        found = run(engine, 20)
        assert [one.id for one in found if one.error] == [7]
        assert "did not answer within 0.3 s" in (found[7].error or "")


@pytest.mark.parametrize("first", [{"choices": []}, {"error": {"message": "busy"}}, {}, None])
def test_errors_of_a_moment(first: Body | None) -> None:
    """A failure that passes costs no row its answer, also one inside HTTP 200."""

    def behave(path: str, body: Body, number: int) -> Reply:
        if number:
            return answer(path, body)
        return refuse(503) if first is None else (200, first, {})

    with serving(behave) as (engine, endpoint):
        assert [one.error for one in run(engine, 3)] == [None] * 3
        assert sum(sent(endpoint).values()) == 4


def test_a_key_that_never_worked() -> None:
    """A wrong key, an empty account and an unknown model end the query at once."""
    for status, message in ((401, "no such key"), (402, "payment required"), (404, "model not found: any")):
        with serving(lambda *_, s=status, m=message: refuse(s, m), patience=300, window=1) as (engine, endpoint):
            with pytest.raises(EngineError):
                run(engine, 5)
            assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("status", [403, 405])
def test_a_rejection_that_can_mean_the_row(status: int) -> None:
    """Before anything has succeeded, a short question tells whether all rows are rejected."""
    with serving(lambda *_: refuse(status), patience=300, window=1) as (engine, endpoint):
        with pytest.raises(EngineError):
            run(engine, 5)
        assert len(endpoint.bodies) == 2

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(status) if said(body) == "ROW0." else answer(path, body)

    with serving(behave, patience=300, window=1) as (engine, _):
        assert [one.id for one in run(engine, 5) if one.error] == [0]


def test_an_account_that_becomes_empty() -> None:
    """The query ends once nothing succeeds any more, and not before the patience is over."""

    def behave(path: str, body: Body, number: int) -> Reply:
        return answer(path, body) if number < 5 else refuse(402, "no credits")

    message = r"has no quota left .HTTP 402.*add credit"
    with (
        serving(behave, patience=0.5, max_retries=0, window=2) as (engine, _),
        pytest.raises(EngineError, match=message),
    ):
        run(engine, 9)


@pytest.mark.parametrize("message", ["Model is currently loading", "no"])
def test_a_cold_endpoint(message: str) -> None:
    """An endpoint that has never answered and starts slowly has the same patience as any other."""

    def behave(path: str, body: Body, number: int) -> Reply:
        return answer(path, body) if number > 12 else refuse(503, message)

    with serving(behave, patience=300, max_retries=1) as (engine, _):
        assert [one.error for one in run(engine, 9)] == [None] * 9


def test_a_success_wakes_the_rows_that_wait() -> None:
    """Once an endpoint is ready, each row is asked again at once, however long it was told to wait."""

    def behave(path: str, body: Body, number: int) -> Reply:
        if number >= 8:
            return answer(path, body)
        return refuse(503, "loading") if said(body) == "ROW3." else refuse(503, "loading", Retry_After="4000")

    with serving(behave, patience=9_000, window=64) as (engine, endpoint):
        assert [one.error for one in run(engine, 40)] == [None] * 40  # within the time limit of the tests
        assert len(endpoint.bodies) <= 8 + 40 + 8


def test_an_endpoint_that_stays_down() -> None:
    """The query fails once nothing has succeeded for the whole patience; the message says for how long."""
    with serving(lambda *_: refuse(503), patience=1.5, max_retries=0) as (engine, _):
        with pytest.raises(EngineUnavailableError, match=r"overloaded or gone .HTTP 503.: no; nothing succeeded for"):
            run(engine, 3)
        assert isinstance(engine, OpenAIEngine)
        assert engine.alive  # a few seconds of failures do not show it as down
        assert "HTTP 503" in engine.reason


def test_one_slot() -> None:
    """An endpoint with one slot gets so few requests that none times out, and a second query does not wait long."""
    slot = threading.Lock()

    def serve(path: str, body: Body, _: int) -> Reply:
        if not slot.acquire(timeout=0.6):
            return refuse(500)  # the client has left
        try:
            time.sleep(0.02)  # noqa: TID251 - the time of one answer
        finally:
            slot.release()
        return answer(path, body)

    with serving(serve, patience=300, window=64, timeout=0.6) as (engine, endpoint):
        assert [one.error for one in run(engine, 200)] == [None] * 200
        assert len(endpoint.bodies) <= 220


def test_asked_waits() -> None:
    """The time of the next try is read from headers and texts; a success of another row does not shorten it."""
    told = {"ROW4.": {"message": "Please try again in 50ms. Visit us."}, "ROW1.": {"Retry_After": "3"}}

    def behave(path: str, body: Body, number: int) -> Reply:
        return refuse(429, **told.get(said(body), {})) if number < 8 else answer(path, body)

    with serving(behave) as (engine, endpoint):
        assert [one.error for one in run(engine, 8)] == [None] * 8
        order = [said(body) for body in endpoint.bodies[8:]]
        assert (order[0], order[-1]) == ("ROW4.", "ROW1.")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a table of 20 rows, and one of a single row."""
    database = open_database(tmp_path, recovery=RecoveryConfig(engine_wait_seconds=1))
    session = database.session()
    for name, rows_ in (("t", 20), ("u", 1)):
        session.update(
            f"CREATE TABLE {name} AS SELECT v, '{name}' || v || '.' AS t FROM generate_series(1, {rows_}) g(v)"
        )
    yield database
    database.close()


def create_model(database: Database, endpoint: Endpoint, **options: object) -> None:
    """Create the model `m` at an endpoint."""
    told = "".join(f", {name} {value!r}" for name, value in options.items())
    database.session().update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'any', base_url '{endpoint.url}'{told})")


ASK = "SELECT v, ai_gen('Say', t, model => 'm', on_error => 'struct') AS a FROM"


def test_each_request_counts(database: Database) -> None:
    """Each request that leaves is counted in the system tables and in budgets; another user's row is not delayed."""

    def behave(path: str, body: Body, _: int) -> Reply:
        time.sleep(0.02)  # noqa: TID251 - the endpoint takes its time
        return refuse(503) if "t7." in said(body) else answer(path, body)

    with endpoint_of(behave) as endpoint:
        create_model(database, endpoint, max_retries=1)
        session = database.session()
        found = rows(session, f"{ASK} t")
        assert [row["v"] for row in found if row["a"]["error"]] == [7]
        for table in ("queries", "ai_calls"):
            assert rows(session, f"SELECT sum(calls) AS n FROM system.{table}") == [{"n": len(endpoint.bodies)}]
        before = len(endpoint.bodies)
        session.update("SET flightllm.max_calls = 1")
        [row] = rows(session, f"{ASK} t WHERE v = 7")
        assert "it is not asked again, because the query's budget is spent" in row["a"]["error"]
        assert len(endpoint.bodies) == before + 1
        assert [row["a"]["error"] for row in rows(database.session(), f"{ASK} u")] == [None]


def test_answers_before_the_end_are_kept(database: Database) -> None:
    """The error about an account that became empty says how many answers came; the next run goes on from there."""

    def behave(path: str, body: Body, number: int) -> Reply:
        return answer(path, body) if number < 8 or paid else refuse(402, "no credits")

    paid = False
    with endpoint_of(behave) as endpoint:
        create_model(database, endpoint, max_retries=0, max_in_flight=1)
        with pytest.raises(EngineError, match=r"no quota left.*; 8 answers came before and are kept"):
            rows(database.session(), f"{ASK} t")
        paid, before = True, len(endpoint.bodies)
        assert [row["a"]["error"] for row in rows(database.session(), f"{ASK} t")] == [None] * 20
        assert len(endpoint.bodies) == before + 12


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"api": "completions", "prompts_per_request": 4}, 4)])
def test_a_budget_ends_the_search_for_a_form(database: Database, options: dict[str, object], count: int) -> None:
    """Where a budget ends the tries after a rejected form or list, the error says what the endpoint rejected."""
    said = "Unknown parameter: 'temperature'."
    with endpoint_of(lambda *_: refuse(400, said)) as endpoint:
        create_model(database, endpoint, **options)
        session = database.session()
        session.update(f"SET flightllm.max_calls = {count}")
        for row in rows(session, f"{ASK} t WHERE v <= {count}"):
            assert f"{said}; it is not asked again, because the query's budget is spent" in row["a"]["error"]
            assert row["a"]["error"].count("it is not asked again") == len(endpoint.bodies) == 1


def _together(reason: str, refused: Callable[[Body], bool]) -> Behave:
    """Return an endpoint that refuses a form, and answers the first refusals only after eight requests came."""
    arrived = threading.Barrier(8, timeout=20)

    def behave(path: str, body: Body, number: int) -> Reply:
        if number < 8:
            arrived.wait()
        return refuse(400, reason) if refused(body) else answer(path, body)

    return behave


OTHER_KEY = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
NO_SYSTEM = (
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "messages.0.role: Input should be 'user' or 'assistant'",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "System role not supported",
)


def test_rows_that_learn_the_key_of_the_limit_together() -> None:
    """Rows in flight while another one changes the key are sent again with the new key."""
    with serving(_together(OTHER_KEY, lambda body: "max_tokens" in body)) as (engine, endpoint):
        assert [one.error for one in run(engine, 20)] == [None] * 20
        assert len(endpoint.bodies) == 28


@pytest.mark.parametrize("reason", NO_SYSTEM)
def test_rows_that_learn_the_system_role_together(reason: str) -> None:
    """An endpoint without a system role gets the system message in the user's turn, whatever its words are."""
    chat = [Request(n, f"<|system|>Be brief.<|user|>ROW{n}.", Parameters(), "ai_gen", "", ()) for n in range(20)]
    behave = _together(reason, lambda body: body["messages"][0]["role"] == "system")
    with serving(behave, system_prompt="Be brief.") as (engine, endpoint):
        found = list(engine.generate(iter(chat), lambda: False))
        assert [one.error for one in found] == [None] * 20
        assert len(endpoint.bodies) == 28


def test_an_endpoint_without_parameters() -> None:
    """An endpoint that knows only the model and the messages gets nothing else, and no query learns it twice."""
    known = {"model", "messages"}

    def behave(path: str, body: Body, _: int) -> Reply:
        unknown = next((key for key in body if key not in known), None)
        return answer(path, body) if unknown is None else refuse(400, f"Unknown field: {unknown}")

    with serving(behave, window=1) as (engine, endpoint):
        assert [one.error for one in run(engine, 5)] == [None] * 5
        before = len(endpoint.bodies)
        assert [one.error for one in run(engine, 5)] == [None] * 5
        assert len(endpoint.bodies) == before + 5


def test_a_limit_out_of_range_keeps_its_key() -> None:
    """A limit that is too high for the endpoint is an error of the call, and no reason to leave out the key."""

    def behave(_path: str, _body: Body, _number: int) -> Reply:
        return refuse(400, "max_tokens must be at most 16 for this account")

    with serving(behave, window=1) as (engine, endpoint):
        assert all("at most 16" in str(one.error) for one in run(engine, 3))
        assert all("max_tokens" in body for body in endpoint.bodies)
