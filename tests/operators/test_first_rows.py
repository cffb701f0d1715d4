"""A filter with a promise under a LIMIT, over simulated models."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from flightllm.operators.oracle import Oracle
from flightllm.operators.population import Units
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database, plan_lines
from tests.simulated import Labels, Model, Simulation, simulated

ROWS = 2_000
RARE: Labels = {f"row {i}": i % 100 == 37 for i in range(ROWS)}
OFTEN: Labels = {f"row {i}": i % 10 < 3 for i in range(ROWS)}
QUESTIONS: Mapping[str, Labels] = {"rare": RARE, "often": OFTEN}
PROXIES = {
    "good": Model(QUESTIONS, error=0.05, scores="calibrated"),
    "blind": Model(QUESTIONS, error=0.5, scores="random"),
    "inverted": Model(QUESTIONS, error=0.05, scores="inverted"),
}
World = tuple[Simulation, Session]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, Database]]:
    """Return simulated models, and a database with a table of 2,000 texts, a few of them twice and some NULL."""
    with simulated({"demo": Model(QUESTIONS), **PROXIES}) as found:
        database = open_database(tmp_path_factory.mktemp("first"))
        session = database.session()
        for name in PROXIES:
            session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}')")
        session.update(
            f"""CREATE TABLE t AS SELECT value AS i,
                CASE WHEN value % 70 = 69 THEN NULL ELSE 'row ' || (value % {ROWS}) END AS t
                FROM generate_series(0, {ROWS + 9})"""
        )
        yield found, database
        database.close()


@pytest.fixture
def world(opened: tuple[Simulation, Database]) -> World:
    """Return the models without requests, and a session without kept answers."""
    session = opened[1].session()
    session.update("TRUNCATE system.cache")
    for engine in opened[0].engines.values():
        engine.asked.clear()
    return opened[0], session


def query(what: str, limit: int, words: str = "") -> str:
    """Return a query for the first rows that are `what`."""
    return f"SELECT i, t FROM t WHERE ai_filter('Is it {what}?', t{words}) LIMIT {limit}"


def words(proxy: str, more: str = "") -> str:
    """Return the options of a promise."""
    return f", recall => 0.9, precision => 0.9, proxy => '{proxy}'{more}"


def asked(world: World, model: str = "demo") -> int:
    """Return the requests that a model got, and forget them."""
    found = world[0].engines[model].asked
    count = len(found)
    found.clear()
    return count


def promise(ran: Ran) -> dict[str, Any]:
    """Return the figures of a query's only promise."""
    (found,) = (site["promise"] for site in ran.record.call_rows() if site["promise"])
    return dict(found)


@pytest.mark.parametrize(("what", "limit", "share"), [("rare", 5, 0.3), ("rare", 15, 0.3), ("often", 50, 0.8)])
def test_a_good_proxy_makes_a_limit_cheaper(world: World, what: str, limit: int, share: float) -> None:
    """The model gets fewer prompts than without the promise, and both together cost less."""
    ask(world[1], query(what, limit))
    exact = asked(world)
    world[1].update("TRUNCATE system.cache")
    ran = ask(world[1], query(what, limit, words("good")))
    own, scores = asked(world), asked(world, "good")
    assert len(ran.rows) == limit
    assert own < share * exact
    assert own + 0.1 * scores < exact
    assert sum(not QUESTIONS[what][row["t"]] for row in ran.rows) <= limit // 10


@pytest.mark.parametrize("proxy", ["blind", "inverted"])
@pytest.mark.parametrize(("what", "limit"), [("rare", 5), ("often", 50)])
def test_a_useless_proxy_costs_a_wave_at_most(world: World, proxy: str, what: str, limit: int) -> None:
    """Where scores tell nothing or the contrary, the model gets at most a wave more than without the promise."""
    ask(world[1], query(what, limit))
    exact = asked(world)
    world[1].update("TRUNCATE system.cache")
    ran = ask(world[1], query(what, limit, words(proxy)))
    assert len(ran.rows) == limit
    assert asked(world) < 2 * exact
    assert sum(not QUESTIONS[what][row["t"]] for row in ran.rows) <= limit // 10


def test_a_wave_goes_out_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts of several parts of the rows wait for no other part, and the model is asked few times."""
    waves: list[int] = []
    send = Oracle.ask_with

    def counted(own: Oracle, asked: Sequence[tuple[Oracle, Units]]) -> None:
        waves.append(len(asked))
        send(own, asked)

    monkeypatch.setattr(Oracle, "ask_with", counted)
    ask(world[1], query("rare", 5, words("blind")))
    assert max(waves) > 1
    assert len(waves) < 30


def test_figures_equal_a_recount(world: World) -> None:
    """The figures of the run are those of the requests and the rows."""
    ran = ask(world[1], query("rare", 10, words("good")))
    figures, values = promise(ran), set(world[0].engines["demo"].values)
    texts = [row["t"] for row in ask(world[1], "SELECT t FROM t WHERE t IS NOT NULL").rows]
    assert figures["asked_prompts"] == len(values)
    assert figures["asked"] == sum(text in values for text in texts)
    assert figures["unseen_errors"] == sum(row["t"] not in values for row in ran.rows) <= 1
    assert figures["rows"] == figures["asked"] + figures["unseen_errors"]
    assert figures["prompts"] >= figures["asked_prompts"]
    assert figures["precision"] == 1 - figures["unseen_errors"] / 10
    assert (figures["held"], figures["delta"], figures["recall"], figures["known"]) == (True, 0, None, 0)
    table = ask(
        world[1],
        f"SELECT promise FROM system.ai_calls WHERE query_id = '{ran.record.query_id}' AND promise IS NOT NULL",
    )
    assert figures.items() <= table.rows[0]["promise"].items()


@pytest.mark.slow
def test_analyze_shows_the_figures(world: World) -> None:
    """ANALYZE shows what is certain, and the counts of the run."""
    ran = ask(world[1], f"EXPLAIN ANALYZE {query('rare', 10, words('good'))}")
    shown, figures = "\n".join(row["plan"] for row in ran.rows), promise(ran)
    assert "promise held (recall 0.9, precision 0.9, confidence 0.95), by the proxy good: A LIMIT returns" in shown
    assert f"at least precision {figures['precision']:.4f}" in shown
    assert f"of them asked {asked(world):,}" in shown


def test_known_answers_are_free(world: World) -> None:
    """Answers that the cache has are used and not asked for."""
    ask(world[1], "SELECT count(*) FROM t WHERE ai_filter('Is it rare?', t)")
    asked(world)
    ran = ask(world[1], query("rare", 15, words("good")))
    assert asked(world) == asked(world, "good") == 0
    assert len(ran.rows) == 15
    assert promise(ran)["known"] > 1_000


@pytest.mark.parametrize("budget", [1, 10, 200])
def test_the_label_budget_holds(world: World, budget: int) -> None:
    """The model gets no more prompts than the budget, and rows that nobody asked about are not returned."""
    ran = ask(world[1], query("rare", 18, words("good", f", label_budget => {budget}")))
    assert asked(world) <= budget
    figures = promise(ran)
    assert figures["asked_prompts"] <= budget
    assert sum(not RARE[row["t"]] for row in ran.rows) <= 1
    if len(ran.rows) < 18:
        assert not figures["held"]
        assert "label budget is spent" in figures["reason"]
        assert "is not held" in (ran.record.error or "")
    if budget == 200:
        assert len(ran.rows) == 18


def test_a_spent_label_budget_leaves_null(world: World) -> None:
    """Rows that the budget does not pay for are NULL, also where the call says that failures end the query."""
    call = f"ai_filter('Is it rare?', t{words('good', ', label_budget => 7')}, on_error => 'fail')"
    ran = ask(world[1], f"SELECT i FROM t WHERE {call} IS NULL LIMIT 1500")
    assert asked(world) <= 7
    assert len(ran.rows) == 1_500


def plan(world: World, sql: str) -> str:
    """Return what EXPLAIN says of the AI operators of a query, without predictions."""
    return "\n".join(text for title, text in plan_lines(world[1], sql).items() if title.startswith("ai operator"))


def test_explain_says_how_a_limit_finds_rows(world: World) -> None:
    """EXPLAIN names the wanted rows, and how the rows are found."""
    shown = plan(world, query("rare", 5, words("good", ", label_budget => 9")) + " OFFSET 3")
    assert "until a LIMIT has 8 rows, with at most 9 prompts, and lets model good score rows while" in shown
    call = f"ai_filter('Is it rare?', t{words('good')})"
    assert "LIMIT" not in plan(world, f"SELECT i FROM t WHERE {call}")
    ordered = plan(world, f"SELECT i FROM t WHERE {call} ORDER BY i LIMIT 5")
    assert "asks its model in waves until a LIMIT has 5 rows: a LIMIT takes its rows a few at a time" in ordered
    alone = plan(world, query("rare", 5, words("embedding")))
    assert "until a LIMIT has 5 rows: only for a filter a language model can tell the likeliest rows" in alone
    kind = "ai_classify(t, ['a', 'b'], accuracy => 0.9, proxy => 'good')"
    labels = plan(world, f"SELECT i, {kind} FROM t WHERE length({kind}) > 3 LIMIT 5")
    assert "until a LIMIT has 5 rows: only for a filter" in labels


@pytest.mark.parametrize("proxies", ["good, embedding", "embedding, good"])
def test_a_language_model_finds_rows_beside_an_embedding_proxy(world: World, proxies: str) -> None:
    """Of several proxies, the first language model scores the rows."""
    ran = ask(world[1], query("rare", 5, words(proxies)))
    assert len(ran.rows) == 5
    assert promise(ran)["proxy"] == "good"


def predicted(world: World, sql: str) -> list[int]:
    """Return the calls that EXPLAIN predicts for each model."""
    (row,) = ask(world[1], f"EXPLAIN (FORMAT JSON) {sql}").rows
    return [call["predicted"]["calls"] for call in json.loads(row["plan"])["operators"][0]["calls"]]


def test_a_run_under_a_limit_leaves_predictions_of_all_rows(world: World) -> None:
    """After a run over all rows and one under a LIMIT, EXPLAIN predicts the calls over all rows from the first one."""
    everything = f"SELECT count(*) FROM t WHERE ai_filter('Is it often?', t{words('good')})"
    ask(world[1], everything)
    real = asked(world)
    world[1].update("TRUNCATE system.cache")
    ask(world[1], query("often", 50, words("good")))
    world[1].update("TRUNCATE system.cache")
    assert predicted(world, everything)[0] == pytest.approx(real, rel=0.2)


@pytest.mark.slow
def test_prediction_by_an_earlier_run(world: World) -> None:
    """After a run of the question over all rows, EXPLAIN predicts the calls of both models under a LIMIT."""
    ask(world[1], f"SELECT count(*) FROM t WHERE ai_filter('Is it rare?', t{words('good')})")
    world[1].update("TRUNCATE system.cache")
    sql = query("rare", 10, words("good"))
    own, scores = predicted(world, sql)
    asked(world)
    asked(world, "good")
    assert len(ask(world[1], sql).rows) == 10
    assert own / 3 < asked(world) < 3 * own
    assert scores / 2 < asked(world, "good") < 2 * scores
