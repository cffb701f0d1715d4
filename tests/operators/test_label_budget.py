"""The label budget of a promise, on the paths on which the model is asked about every row."""

from collections.abc import Iterator

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.simulated import Labels, Model, Simulation, VectorModel, simulated

ROWS = 300
GOOD: Labels = {f"row {i}": i == 150 for i in range(ROWS)}
KIND: Labels = {f"row {i}": ("tree", "bird", "fish")[i % 3] for i in range(ROWS)}
BUDGET = 10
WORDS = "recall => 0.9, precision => 0.9, proxy => 'small'"
CALL = f"ai_filter('Good?', t, {WORDS}{{}}, label_budget => {BUDGET})"
KINDS = f"ai_classify(t, ['tree', 'bird', 'fish'], accuracy => 0.9, proxy => 'small', label_budget => {BUDGET})"
World = tuple[Simulation, Session]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, Database]]:
    """Return simulated models and a database with a table of 300 texts."""
    questions = {"Good": GOOD, "Classify": KIND}
    models = {"demo": Model(questions), "small": Model(questions, error=0.05, scores="calibrated")}
    with simulated(models, VectorModel(GOOD)) as found:
        database = open_database(tmp_path_factory.mktemp("budgets"))
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small')")
        session.update(
            f"""CREATE TABLE t AS SELECT value AS i, value % 5 AS g, 'row ' || value AS t
                FROM generate_series(0, {ROWS - 1})"""
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


def check(world: World, ran: Ran) -> None:
    """Check that the budget was kept, and that the query tells what it lacks."""
    prompts = world[0].engines["demo"].values
    assert len(prompts) <= BUDGET
    (figures,) = (site["promise"] for site in ran.record.call_rows() if site["promise"])
    assert not figures["held"]
    assert figures["asked_prompts"] == len(prompts)
    told = ran.record.error or ""
    assert told.count("is not held") == 1
    assert "label budget is spent" in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT g FROM t WHERE {}",
        "SELECT max(i) FROM t WHERE {}",
        "SELECT i FROM t WHERE {} ORDER BY i LIMIT 20",
        "SELECT 1 FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE t.g = o.g AND {}) AND o.i < 40",
    ],
)
def test_rows_a_few_at_a_time(world: World, sql: str) -> None:
    """Groups, ORDER BY … LIMIT and EXISTS ask no more than the budget."""
    check(world, ask(world[1], sql.format(CALL.format(""))))


def test_labels_under_a_limit(world: World) -> None:
    """A classification under a LIMIT is exact, and asks no more than the budget."""
    ran = ask(world[1], f"SELECT i, length({KINDS}) AS n FROM t WHERE length({KINDS}) > 9 LIMIT 5")
    check(world, ran)
    assert ran.rows == []


def test_a_lone_embedding_proxy_under_a_limit(world: World) -> None:
    """A filter whose only proxy embeds is exact under a LIMIT, and asks no more than the budget."""
    call = CALL.format("").replace("'small'", "'embedding'")
    ran = ask(world[1], f"SELECT i, t FROM t WHERE {call} LIMIT 20")
    check(world, ran)
    assert all(GOOD[row["t"]] for row in ran.rows)


@pytest.mark.parametrize("on_error", ["null", "fail", "struct"])
def test_without_the_optimizer(world: World, on_error: str) -> None:
    """Batch functions ask no more than the budget, and rows without an answer are NULL and no failure."""
    ran = ask(world[1], f"SELECT t, {CALL.format(f', on_error => {on_error!r}')} AS x FROM t", optimizer="off")
    check(world, ran)
    found = [row["x"]["value"] if on_error == "struct" else row["x"] for row in ran.rows]
    assert sum(value is not None for value in found) == BUDGET
    if on_error == "struct":
        assert all(row["x"]["error"] is None for row in ran.rows)
    (figures,) = (site["promise"] for site in ran.record.call_rows() if site["promise"])
    assert (figures["asked"], figures["unanswered"]) == (BUDGET, ROWS - BUDGET)


def test_figures_of_an_exact_path(world: World) -> None:
    """The rows that were asked, known before and left add up, and a call without a promise loses nothing."""
    ask(world[1], "SELECT t FROM t WHERE i < 10 AND ai_filter('Good?', t)")
    world[0].engines["demo"].asked.clear()
    sql = f"SELECT i FROM t WHERE {CALL.format('')} ORDER BY i LIMIT 290"
    ran = ask(world[1], sql)
    check(world, ran)
    (figures,) = (site["promise"] for site in ran.record.call_rows() if site["promise"])
    assert figures["known"] == 10
    assert figures["asked"] == BUDGET
    assert figures["known"] + figures["asked"] + figures["unanswered"] == figures["rows"] == ROWS


def test_a_budget_that_is_enough_changes_nothing(world: World) -> None:
    """Where the budget covers all prompts, the rows are those without a promise, and nothing is told."""
    call = CALL.format("").replace(f"=> {BUDGET})", "=> 1000)")
    ran = ask(world[1], f"SELECT i FROM t WHERE {call} ORDER BY i LIMIT 5")
    assert ran.rows == ask(world[1], "SELECT i FROM t WHERE ai_filter('Good?', t) ORDER BY i LIMIT 5").rows
    assert ran.record.error is None


@pytest.mark.parametrize("where", ["{0} OR {1}", "{1} OR {0}", "{0} IS NULL AND NOT {1}"])
def test_a_call_without_a_budget_has_all_answers(world: World, where: str) -> None:
    """A call without a promise gets its answers, although a call of the same prompts has spent its budget."""
    condition = where.format(CALL.format(""), "ai_filter('Good?', t, on_error => 'fail')")
    ran = ask(world[1], f"SELECT i FROM t WHERE {condition}")
    assert {row["i"] for row in ran.rows} == {150} if "OR" in where else 150 not in {row["i"] for row in ran.rows}
    assert len(set(world[0].engines["demo"].values)) == ROWS
