"""Several filters of one promise, over simulated models: the rows, the counts, reruns, failures and budgets."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.errors import FlightLLMError
from flightllm.functions.call import MODEL
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, explained, open_database, plan_lines
from tests.simulated import Labels, Model, Simulation, VectorModel, simulated

N = 700
RED: Labels = {f"a{i}": i % 5 < 2 for i in range(N)}
BIG: Labels = {f"b{i}": i % 7 < 4 for i in range(N)}
NEW: Labels = {f"a{i}": i % 3 > 0 for i in range(N)}
QUESTIONS = {"red": RED, "big": BIG, "new": NEW}
FAILED = ("a10", "a16", "b15")
TWO = "SELECT i FROM t WHERE ai_filter('Is it red?', a) AND ai_filter('Is it big?', b)"
THREE = f"{TWO} AND ai_filter('Is it new?', a)"
QUALITY = "SET flightllm.quality = 'recall 0.9, precision 0.9, confidence 0.9'"


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, Database]]:
    """Return simulated models and a table of two texts, some twice and some NULL."""
    models = {
        "demo": Model(QUESTIONS, fails=FAILED),
        "small": Model(QUESTIONS, error=0.05, scores="calibrated", fails=("a13", "b14")),
        "wise": Model(QUESTIONS),
        "blind": Model(QUESTIONS, error=0.5, scores="random"),
    }
    with simulated(models, VectorModel(RED)) as found:
        embedding = EmbeddingConfig("fake", "simulated")
        database = open_database(tmp_path_factory.mktemp("joint"), embedding=embedding)
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small', proxy_for 'default')")
        session.update("CREATE MODEL wise OPTIONS (engine 'fake', model 'wise')")
        session.update("CREATE MODEL blind OPTIONS (engine 'fake', model 'blind', proxy_for 'wise')")
        session.update(
            f"""CREATE TABLE t AS SELECT value AS i,
                CASE WHEN value % 50 = 49 THEN NULL ELSE 'a' || (value % {N}) END AS a,
                CASE WHEN value % 60 = 59 THEN NULL ELSE 'b' || (value % {N}) END AS b
                FROM generate_series(0, {N + N // 7 - 1})"""
        )
        yield found, database
        database.close()


@pytest.fixture
def session(simulation: tuple[Simulation, Database]) -> Session:
    """Return a session with a promise and without kept answers."""
    session = simulation[1].session()
    session.update("TRUNCATE system.cache")
    session.update(QUALITY)
    for engine in simulation[0].engines.values():
        engine.asked.clear()
    return session


def wanted(*questions: Labels, fails: Sequence[str] = FAILED) -> set[int]:
    """Return the rows that pass; a row with a failure does not."""
    found = set()
    for i in range(N + N // 7):
        a, b = (f"a{i % N}" if i % 50 != 49 else None), (f"b{i % N}" if i % 60 != 59 else None)
        values = [(labels, a if labels is not BIG else b) for labels in questions]
        if all(value is not None and value not in fails and labels[value] for labels, value in values):
            found.add(i)
    return found


def returned(ran: Ran) -> set[int]:
    """Return the rows of a result, each of which must be there once."""
    found = {row["i"] for row in ran.rows}
    assert len(found) == len(ran.rows)
    return found


def own(ran: Ran) -> list[dict[str, Any]]:
    """Return the call sites of the server's own model."""
    return [site for site in ran.record.call_rows() if site["model"] is None and site["backend"] == MODEL]


@pytest.mark.parametrize(("sql", "questions"), [(TWO, (RED, BIG)), (THREE, (RED, BIG, NEW))])
def test_rows_and_counts(
    simulation: tuple[Simulation, Database], session: Session, sql: str, questions: tuple[Labels, ...]
) -> None:
    """Both targets hold with fewer questions than without, and the counts are those of the model itself."""
    exact = ask(simulation[1].session(), sql, cache="off")
    demo = simulation[0].engines["demo"]
    demo.asked.clear()
    ran = ask(session, sql)
    found, right = returned(ran), wanted(*questions)
    assert returned(exact) == right
    assert len(found & right) >= 0.9 * max(len(right), len(found))
    sites = own(ran)
    asked = demo.asked
    assert [site["calls"] for site in sites] == [
        sum(site["text"].split("'")[1] in request.instruction for request in asked) for site in sites
    ]
    assert len(asked) == len({(request.instruction, *request.fields) for request in asked}), "no prompt is sent twice"
    assert len(asked) < sum(site["calls"] for site in own(exact))
    promise = sites[0]["promise"]
    assert promise["recall"] >= 0.9
    assert promise["precision"] >= 0.9
    assert promise["accepted"] == len(found)
    assert promise["rows"] == sum(i % 50 != 49 and i % 60 != 59 for i in range(N + N // 7))
    assert promise["asked_prompts"] <= promise["prompts"] < N
    assert all(site["promise"]["held"] for site in sites)
    assert all("rows" not in site["promise"] for site in sites[1:]), "sums over the sites count each row once"


def test_an_answer_decides_all_rows_of_its_prompt(simulation: tuple[Simulation, Database], session: Session) -> None:
    """A No about a value that many rows have drops all of them, in the first run as in a rerun."""
    session.update("CREATE OR REPLACE TABLE shared AS SELECT i, 'a' || (i % 60) AS a, b FROM t WHERE b IS NOT NULL")
    sql = TWO.replace("FROM t", "FROM shared")
    first = ask(session, sql)
    no = {value for value in simulation[0].engines["demo"].values if not RED.get(value, True)}
    found = returned(first)
    assert no
    assert all(f"a{i % 60}" not in no for i in found)
    assert returned(ask(session, sql)) == found


def test_a_rerun_costs_nothing(simulation: tuple[Simulation, Database], session: Session) -> None:
    """The same query again has the same rows, and asks only what failed."""
    first = ask(session, TWO)
    for engine in simulation[0].engines.values():
        engine.asked.clear()
    again = ask(session, TWO)
    assert returned(again) == returned(first)
    assert set(simulation[0].engines["demo"].values) <= set(FAILED)
    assert set(simulation[0].engines["small"].values) <= {"a13", "b14"}


def test_other_targets_use_known_answers(session: Session) -> None:
    """A query again with stricter targets takes the tuples that the first run told as known."""
    asked = own(ask(session, TWO))[0]["promise"]["asked_prompts"]
    session.update(QUALITY.replace("0.9, p", "0.93, p").replace("precision 0.9", "precision 0.93"))
    assert own(ask(session, TWO))[0]["promise"]["known"] >= 0.9 * asked


def test_known_answers_are_used(simulation: tuple[Simulation, Database], session: Session) -> None:
    """Answers of an earlier query decide their rows, and no filter asks about rows that they drop."""
    ask(session, "SELECT i, ai_filter('Is it red?', a) AS r FROM t", quality="none")
    simulation[0].engines["demo"].asked.clear()
    found = returned(ask(session, TWO))
    right = wanted(RED, BIG)
    assert len(found & right) >= 0.9 * max(len(right), len(found))
    values = [value for value in simulation[0].engines["demo"].values if value not in FAILED]
    assert all(value.startswith("b") and RED[value.replace("b", "a")] for value in values)


def test_a_useless_proxy_costs_no_calls(simulation: tuple[Simulation, Database], session: Session) -> None:
    """With a proxy that knows nothing, the models are asked about as many prompts as without it."""
    sql = TWO.replace("', a", "', a, model => 'wise'").replace("', b", "', b, model => 'wise'")
    assert returned(ask(simulation[1].session(), sql, cache="off")) == wanted(RED, BIG, fails=())
    without = len(simulation[0].engines["wise"].asked)
    simulation[0].engines["wise"].asked.clear()
    ran = ask(session, sql)
    assert len(simulation[0].engines["wise"].asked) <= 1.02 * without
    found, right = returned(ran), wanted(RED, BIG, fails=())
    assert len(found & right) >= 0.9 * max(len(right), len(found))


def test_failures_are_counted(session: Session) -> None:
    """A row whose prompt failed does not pass, and counts as failed."""
    ran = ask(session, f"{TWO} AND i % {N} IN (10, 15, 16) AND i < {N}")
    assert returned(ran) == set()
    assert sum(site["failed_rows"] for site in own(ran)) == 3


def test_a_spent_budget(session: Session) -> None:
    """When max_calls ends the asking, the promise is not held, unasked rows do not pass, and a notice says so."""
    # A new question is predicted to ask half of the rows. The blind proxy makes it ask all.
    sql = TWO.replace("red?', a", "red today?', a, model => 'wise'").replace("', b", "', b, model => 'wise'")
    ran = ask(session, sql, max_calls="2000", on_budget="null")
    sites = [site for site in ran.record.call_rows() if site["model"] == "wise"]
    assert sum(site["calls"] for site in ran.record.call_rows()) <= 2000
    assert returned(ran) < wanted(RED, BIG, fails=())
    assert not sites[0]["promise"]["held"]
    assert "is not held" in (ran.record.error or "")
    with pytest.raises(FlightLLMError, match="max_calls"):
        ask(session, THREE, max_calls="900", on_budget="fail")


def test_explain(session: Session) -> None:
    """EXPLAIN tells of the promise of both filters."""
    assert (
        plan_lines(session, TWO)["quality"].count("recall 0.9, precision 0.9, confidence 0.9, 2 filters together") == 2
    )


def test_analyze(session: Session) -> None:
    """After a run, the share of each model's prompts is predicted from it, and the figures stand at one filter only.

    A row that surely fails the first filter needs no score of the second one.
    """
    session.update("SET flightllm.cache = 'off'")
    sql = f"{TWO} AND i < 400"
    scored = [site["calls"] for site in ask(session, sql).record.call_rows() if site["model"] == "small"]
    lines = {line["plan_type"]: line["plan"] for line in ask(session, f"EXPLAIN ANALYZE {sql}").rows}
    told = next(text for title, text in lines.items() if title.startswith("calls of"))
    predicted = [int(calls) for calls in re.findall(r"the proxy\n(?:.*\n)*?predicted +\d+ +(\d+)", told)]
    assert scored[1] < 0.9 * scored[0]
    assert predicted == pytest.approx(scored, rel=0.05)
    assert told.count("as in the last run") == 1
    assert told.count("tuples of one prompt for each filter: ") == 1
    assert told.count("promise held") == 2
    assert told.count("The figures are those of ai_filter('Is it red?', a).") == 1


@pytest.mark.slow
def test_a_first_prediction(session: Session) -> None:
    """Without an earlier run, EXPLAIN says that it assumes the share."""
    cold = TWO.replace("'Is it red?'", "'Is it red now?'")
    assert "assumed, because no earlier run tells it" in str(explained(session, cold))
