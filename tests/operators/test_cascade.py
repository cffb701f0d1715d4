"""Calls with a promise, over simulated models whose answers come from labels."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.errors import AnswerError, FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database, plan_lines
from tests.simulated import Label, Labels, Model, Simulation, simulated

N = 600
SEEN: Labels = {f"text {i}": i % 10 < 3 for i in range(N)}
KIND: Labels = {f"text {i}": ("tree", "bird", "fish")[i % 3] for i in range(N)}
GREEN: Labels = {f"text {i}": i % 2 == 0 for i in range(N)}
QUESTIONS: Mapping[str, Labels] = {"Is it seen": SEEN, "Classify": KIND, "Is it green": GREEN}
FAILED, UNSCORED = ("text 11", "text 12"), ("text 13", "text 14")
SEEN_CALL = "ai_filter('Is it seen?', t{})"
SEEN_FILTER = SEEN_CALL.format(", recall => 0.9, precision => 0.9, proxy => 'small'{}")


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, Database]]:
    """Return simulated models and a database with a table of texts, some twice and some NULL."""
    models = {
        "demo": Model(QUESTIONS, fails=FAILED),
        "small": Model(QUESTIONS, error=0.08, scores="calibrated", fails=UNSCORED),
        "blind": Model(QUESTIONS, error=0.5, scores="random"),
        "mute": Model(QUESTIONS, error=0.02, scores="none"),
    }
    with simulated(models) as found:
        database = open_database(tmp_path_factory.mktemp("cascades"))
        session = database.session()
        for name in models:
            if name != "demo":
                session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}')")
        session.update(
            f"""CREATE TABLE t AS SELECT value AS i, value % 5 AS g,
                CASE WHEN value % 50 = 49 THEN NULL ELSE 'text ' || (value % {N}) END AS t
                FROM generate_series(0, {N + N // 5 - 1})"""
        )
        yield found, database
        database.close()


@pytest.fixture
def session(simulation: tuple[Simulation, Database]) -> Session:
    """Return a session without kept answers."""
    session = simulation[1].session()
    session.update("TRUNCATE system.cache")
    return session


def sites(ran: Ran) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the call sites of the model and of its proxy."""
    own, proxy = ran.record.call_rows()
    return own, proxy


def positives(ran: Ran) -> set[int]:
    """Return the rows of a query's result."""
    return {row["i"] for row in ran.rows}


def wanted(session: Session, where: str = "true") -> set[int]:
    """Return the rows for which the model itself would say yes."""
    rows = ask(session, f"SELECT i, t FROM t WHERE {where}").rows
    return {row["i"] for row in rows if row["t"] and row["t"] not in FAILED and SEEN[row["t"]]}


def test_the_proxy_decides_most_rows(session: Session) -> None:
    """Recall and precision hold, the model is asked about fewer rows, and the record tells both apart."""
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}")
    own, proxy = sites(ran)
    right = wanted(session)
    assert len(positives(ran) & right) >= 0.9 * max(len(right), len(ran.rows))
    prompts = len({row["t"] for row in ask(session, "SELECT t FROM t WHERE t IS NOT NULL").rows})
    assert own["calls"] < 0.8 * prompts
    assert (proxy["model"], proxy["calls"], proxy["rows"]) == ("small", prompts, own["promise"]["rows"])
    assert own["rows"] == N + N // 5
    assert own["failed_rows"] == own["promise"]["unanswered"]  # a failing text that nobody asked about has no failure
    assert proxy["promise"] is None


def test_the_certified_numbers_equal_a_recount(session: Session) -> None:
    """ANALYZE, `system.ai_calls` and the labels agree."""
    sql = f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}"
    ran = ask(session, sql)
    promise = sites(ran)[0]["promise"]
    again = ask(session, f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
    (row,) = again.rows
    calls = json.loads(row["plan"])["operators"][0]["calls"]
    assert [call["role"] for call in calls] == [None, "proxy"]
    assert calls[0]["promise"] == promise
    table = ask(
        session, f"SELECT promise FROM system.ai_calls WHERE query_id = '{ran.record.query_id}' ORDER BY call_site"
    )
    kept = [row["promise"] for row in table.rows]
    assert kept == [promise, None]
    texts = [row["t"] for row in ask(session, "SELECT t FROM t WHERE t IS NOT NULL").rows]
    assert promise["rows"] == len(texts)
    assert promise["prompts"] == len(set(texts))
    assert promise["accepted"] == len(ran.rows)
    assert promise["accepted"] + promise["rejected"] + promise["unanswered"] == len(texts)
    right = wanted(session)
    missed, wrong = len(right - positives(ran)), len(positives(ran) - right)
    assert missed <= promise["unseen_false_rejects"]
    assert wrong <= promise["unseen_false_accepts"]
    hits = len(right & positives(ran))
    assert promise["recall"] <= hits / len(right)
    assert promise["precision"] <= hits / len(ran.rows)
    assert promise["held"]
    assert promise["delta"] == pytest.approx(0.05)
    assert set(UNSCORED) <= set(texts)
    assert len(UNSCORED) <= again.calls <= len({*FAILED, *UNSCORED})  # only answers that failed are asked for again


@pytest.mark.slow
def test_analyze_shows_what_is_certified(session: Session) -> None:
    """The lines below the figures have the bounds and the counts."""
    ran = ask(session, f"EXPLAIN ANALYZE SELECT i FROM t WHERE i < 400 AND {SEEN_FILTER.format('')}")
    promise = sites(ran)[0]["promise"]
    shown = next(row["plan"] for row in ran.rows if "promise held" in row["plan"])
    assert f"at least recall {promise['recall']:.4f}, precision {promise['precision']:.4f}" in shown
    assert f"asked {promise['asked']:,}" in shown
    assert "model: small, the proxy" in shown


def test_asked_rows_are_those_that_the_model_got(simulation: tuple[Simulation, Database], session: Session) -> None:
    """The asked prompts and rows equal a recount of the model's requests."""
    engine = simulation[0].engines["demo"]
    engine.asked.clear()
    promise = sites(ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}"))[0]["promise"]
    asked = engine.values
    assert len(asked) == len(set(asked)) == promise["asked_prompts"]
    rows = [row["t"] for row in ask(session, "SELECT t FROM t").rows]
    assert sum(row in set(asked) for row in rows) == promise["asked"]


def test_rerun_repeats_without_calls(session: Session) -> None:
    """The same query gives the same rows and the same figures, and asks no model."""
    whole = f"SELECT i, {SEEN_FILTER.format('')} AS x FROM t WHERE t NOT IN {(*FAILED, *UNSCORED)}"
    one, two = ask(session, whole), ask(session, whole)
    assert two.calls == 0
    assert sorted(map(str, two.rows)) == sorted(map(str, one.rows))
    assert sites(two)[0]["promise"] == sites(one)[0]["promise"]


def test_order_of_rows_changes_nothing(session: Session) -> None:
    """The same rows in another order get the same answers."""
    session.update("CREATE OR REPLACE TABLE turned AS SELECT * FROM t ORDER BY t DESC, i DESC")
    forth = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}")
    session.update("TRUNCATE system.cache")
    back = ask(session, f"SELECT i FROM turned WHERE {SEEN_FILTER.format('')}")
    assert positives(forth) == positives(back)
    assert sites(forth)[0]["promise"] == sites(back)[0]["promise"]


def test_cached_answers_are_known(session: Session) -> None:
    """Answers that the cache has count exactly, and are not asked again."""
    exact = ask(session, f"SELECT i FROM t WHERE {SEEN_CALL.format('')} AND i < 300")
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}")
    own, _ = sites(ran)
    assert own["promise"]["known"] > 250
    assert own["cache_hits"] >= 250
    assert positives(exact) == {i for i in positives(ran) if i < 300} - {int(text.split()[1]) for text in FAILED}


def test_verdicts_are_no_answers(session: Session) -> None:
    """A later query without a promise asks about the rows that the proxy decided."""
    asked = sites(ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}"))[0]["promise"]
    later = ask(session, f"SELECT i FROM t WHERE {SEEN_CALL.format('')}")
    assert 0 <= later.calls - (asked["prompts"] - asked["asked_prompts"]) <= len(FAILED)
    assert positives(later) == wanted(session)


def test_null_and_failed_answers(session: Session) -> None:
    """NULL stays NULL, a failed answer is NULL or an error, and a row without a score is asked."""
    strict = SEEN_CALL.format(", accuracy => 0.9999, proxy => 'small', on_error => '{}'")  # asks about each row
    ran = ask(session, f"SELECT t, {strict.format('struct')} AS x FROM t")
    found = {row["t"]: row["x"] for row in ran.rows}
    assert found[None] is None
    for text in FAILED:
        assert found[text] == {"value": None, "error": f"the simulated model fails for {text!r}"}
    for text in UNSCORED:
        assert found[text] == {"value": SEEN[text], "error": None}
    with pytest.raises(AnswerError, match="the simulated model fails"):
        ask(session, f"SELECT {strict.format('fail')} FROM t")


def test_useless_proxy_asks_all_rows(session: Session) -> None:
    """A proxy that knows nothing costs its own price and no more, and the user learns of it."""
    words = ", recall => 0.99, precision => 0.99, proxy => 'blind'"
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_CALL.format(words)}")
    own, proxy = sites(ran)
    assert own["calls"] <= own["promise"]["prompts"] == proxy["calls"]
    assert own["promise"]["useless"]
    assert positives(ran) == wanted(session)
    assert "the proxy blind saved nothing" in ran.record.row()["error"]


def test_few_rows_ask_no_proxy(session: Session) -> None:
    """Rows that are too few to sample go to the model alone."""
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')} AND i < 40")
    assert [site["model"] for site in ran.record.call_rows()] == [None]
    assert positives(ran) == wanted(session, "i < 40")
    assert ran.record.row()["error"] is None


def test_spent_label_budget_is_told(session: Session) -> None:
    """Where the budget of labels is too small, the query says what is certain."""
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format(', label_budget => 30')}")
    own, _ = sites(ran)
    assert own["calls"] <= 30
    assert not own["promise"]["held"]
    assert "is not held" in ran.record.row()["error"]


def test_predicates_come_first(session: Session) -> None:
    """The promise is about the rows that other predicates and exact filters leave."""
    sql = f"SELECT i FROM t WHERE {SEEN_FILTER.format('')} AND ai_filter('Is it green?', t) AND g < 4"
    plan = plan_lines(session, sql)
    assert [title for title in plan if title.startswith("ai operator")] == ["ai operator s1", "ai operator s0"]
    assert "Is it green?" in plan["ai operator s0"]
    ran = ask(session, sql)
    green = {row["i"] for row in ask(session, "SELECT i FROM t WHERE ai_filter('Is it green?', t) AND g < 4").rows}
    promise = next(site["promise"] for site in ran.record.call_rows() if site["promise"])
    assert promise["rows"] == len(green)
    assert promise["accepted"] == len(ran.rows)
    assert len(positives(ran) & wanted(session) & green) >= 0.9 * len(wanted(session) & green)


def test_guards_bound_the_rows(session: Session) -> None:
    """CASE asks, and promises, only about the rows that need the call."""
    ran = ask(session, f"SELECT i FROM t WHERE CASE WHEN g > 1 THEN {SEEN_FILTER.format('')} ELSE i < 10 END")
    rows = ask(session, "SELECT t FROM t WHERE g > 1 AND t IS NOT NULL").rows
    assert sites(ran)[0]["promise"]["rows"] == len(rows)
    assert {i for i in positives(ran) if i % 5 < 2} == {0, 1, 5, 6}
    right = wanted(session, "g > 1")
    assert len(right & positives(ran)) >= 0.9 * len(right)


@pytest.mark.slow
def test_two_filters_in_sequence(session: Session) -> None:
    """The second filter is about the rows that the first one accepted."""
    other = "ai_filter('Is it green?', t, recall => 0.9, precision => 0.9, proxy => 'small')"
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')} AND {other}")
    second, first = (site["promise"] for site in ran.record.call_rows() if site["promise"])
    assert second["rows"] == first["accepted"]
    assert second["accepted"] == len(ran.rows)


def test_labels_with_an_accuracy(session: Session) -> None:
    """A classification keeps its accuracy over rows, also where groups are counted."""
    call = "ai_classify(t, ['tree', 'bird', 'fish'], accuracy => 0.9, proxy => 'small')"
    ran = ask(session, f"SELECT t, {call} AS kind FROM t")
    own, _ = sites(ran)
    answered = [row for row in ran.rows if row["t"] is not None and row["t"] not in FAILED]
    right = sum(row["kind"] == KIND[row["t"]] for row in answered)
    assert own["promise"]["accuracy"] >= 0.9
    assert right >= 0.9 * len(answered)
    assert own["calls"] < 0.8 * own["promise"]["prompts"]
    assert len(answered) - right <= own["promise"]["unseen_errors"]
    session.update("TRUNCATE system.cache")
    counted = ask(session, f"SELECT {call} AS kind, count(*) AS n FROM t GROUP BY 1")
    by_kind = {row["kind"]: row["n"] for row in counted.rows}
    assert sum(by_kind.values()) == N + N // 5
    assert counted.record.call_rows()[0]["promise"]["rows"] == own["promise"]["rows"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT g FROM t WHERE {}",
        "SELECT 1 FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE t.g = o.g AND {}) AND o.i < 10",
        "SELECT max(i) FROM t WHERE {}",
        "SELECT i FROM t WHERE {} ORDER BY i LIMIT 5",
    ],
)
def test_first_rows_are_exact(session: Session, sql: str) -> None:
    """Where a few rows at a time are enough, the model itself is asked, as without the promise."""
    promised = ask(session, sql.format(SEEN_FILTER.format("")))
    session.update("TRUNCATE system.cache")
    exact = ask(session, sql.format(SEEN_CALL.format("")))
    assert sorted(map(str, promised.rows)) == sorted(map(str, exact.rows))
    assert promised.calls == exact.calls
    assert all(site["model"] is None for site in promised.record.call_rows())


def test_exact_places_are_explained(session: Session) -> None:
    """EXPLAIN says which model decides, or why the model is asked about every row."""
    plan = "\n".join(plan_lines(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}").values())
    assert "promises recall 0.9, precision 0.9, confidence 0.95: model small scores all rows" in plan
    plan = "\n".join(plan_lines(session, f"SELECT DISTINCT g FROM t WHERE {SEEN_FILTER.format('')}").values())
    assert "asks its model about every row: its rows come a few at a time" in plan


@pytest.mark.slow
def test_unions_and_subqueries(session: Session) -> None:
    """Each operator keeps its own promise."""
    ran = ask(
        session,
        f"SELECT i FROM t WHERE i < 300 AND {SEEN_FILTER.format('')}"
        f" UNION ALL SELECT i FROM (SELECT * FROM t WHERE i >= 300) AS t WHERE {SEEN_FILTER.format('')}",
    )
    right = wanted(session)
    assert len(right & positives(ran)) >= 0.9 * len(right)
    assert sum(site["promise"] is not None for site in ran.record.call_rows()) == 2


def test_changes_by_a_promise(session: Session) -> None:
    """INSERT … SELECT, UPDATE and DELETE take the decided answers."""
    session.update("CREATE OR REPLACE TABLE kept (i BIGINT, t VARCHAR, x BOOLEAN)")
    session.update(f"INSERT INTO kept SELECT i, t, {SEEN_FILTER.format('')} FROM t WHERE t NOT IN {FAILED}")
    accepted = {row["i"] for row in ask(session, "SELECT i FROM kept WHERE x").rows}
    right = wanted(session)
    assert len(right & accepted) >= 0.9 * len(right)
    session.update(f"UPDATE kept SET x = NOT {SEEN_FILTER.format('')}")
    turned = {row["i"] for row in ask(session, "SELECT i FROM kept WHERE NOT x").rows}
    assert turned == accepted
    session.update(f"DELETE FROM kept WHERE {SEEN_FILTER.format('')}")
    assert not accepted & {row["i"] for row in ask(session, "SELECT i FROM kept").rows}


@pytest.mark.parametrize("change", ["UPDATE kept SET x = true WHERE {}", "DELETE FROM kept WHERE {}"])
def test_a_change_by_a_promise_has_a_notice(session: Session, change: str) -> None:
    """A change for good says that proxies choose its rows; it says nothing where the model itself does."""
    session.update("CREATE OR REPLACE TABLE kept AS SELECT i, t, false AS x FROM t WHERE i < 9")
    told = []
    for more in ("", ", proxy => 'none'"):
        call = SEEN_CALL.format(f", recall => 0.9, precision => 0.9{more or ', proxy => ' + repr('small')}")
        session.update(change.format(call))
        kind = change.split(maxsplit=1)[0].lower()
        found = f"SELECT error FROM system.queries WHERE kind = '{kind}' ORDER BY started_at DESC LIMIT 1"
        told.append(ask(session, found).rows[0]["error"] or "")
    assert "can change rows that the model would not choose" in told[0]
    assert told[1] == ""


def test_hidden_rows_are_no_part_of_the_promise(simulation: tuple[Simulation, Database], session: Session) -> None:
    """A row filter bounds the rows that a promise is about."""
    session.update("CREATE OR REPLACE TABLE guarded AS SELECT * FROM t")
    store = simulation[1].access.store
    store.add_user(User("alice", "user"))
    session.update("GRANT ALL ON SCHEMA public TO alice")
    session.update("GRANT USAGE ON MODEL small TO alice")
    session.update("CREATE ROW FILTER ON guarded TO alice AS g < 3")
    alice = simulation[1].session(store.user("alice").principal)
    ran = ask(alice, f"SELECT i FROM guarded WHERE {SEEN_FILTER.format('')}")
    rows = ask(session, "SELECT t FROM t WHERE g < 3 AND t IS NOT NULL").rows
    assert sites(ran)[0]["promise"]["rows"] == len(rows)
    assert {i % 5 for i in positives(ran)} <= {0, 1, 2}


def test_a_budget_that_cuts_the_sample_certifies_nothing(session: Session) -> None:
    """Rows that the budget leaves without an answer are NULL, and neither count as no nor let a proxy decide."""
    words = ", recall => 0.9, precision => 0.9, proxy => 'blind'"
    sql = f"SELECT i FROM t WHERE {SEEN_CALL.replace('seen', 'seen by day').format(words)}"  # new, so not predicted
    ran = ask(session, sql, **{"flightllm.max_calls": str(8 * N // 5), "flightllm.on_budget": "null"})
    promise = sites(ran)[0]["promise"]
    assert (promise["held"], promise["recall"], promise["precision"]) == (False, None, None)
    assert "budget" in promise["reason"]
    assert promise["unanswered"] > len(FAILED)
    assert positives(ran) < wanted(session)


def test_budgets_end_both_models(session: Session) -> None:
    """A limit on calls counts the calls of the proxy, and a query that would exceed it does not begin."""
    with pytest.raises(FlightLLMError, match="max_calls"):
        ask(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}", **{"flightllm.max_calls": "100"})


def test_without_the_words_nothing_changes(session: Session) -> None:
    """A call without a promise asks about each distinct value once."""
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_CALL.format('')}")
    assert ran.calls == len({row["t"] for row in ask(session, "SELECT t FROM t WHERE t IS NOT NULL").rows})
    assert positives(ran) == wanted(session)
    assert [site["promise"] for site in ran.record.call_rows()] == [None]


@pytest.mark.slow
def test_labels_of_a_mute_proxy_are_scores(session: Session) -> None:
    """A proxy without probabilities still decides by its answers."""
    words = ", recall => 0.9, precision => 0.9, proxy => 'mute'"
    ran = ask(session, f"SELECT i FROM t WHERE {SEEN_CALL.format(words)}")
    own, proxy = sites(ran)
    assert own["calls"] < own["promise"]["prompts"]
    right = wanted(session)
    assert len(right & positives(ran)) >= 0.9 * len(right)
    assert proxy["calls"] == own["promise"]["prompts"]


@pytest.mark.slow
def test_prediction_of_a_promise(session: Session) -> None:
    """EXPLAIN predicts the calls of both models, and that a rerun needs no calls."""
    sql = f"SELECT i FROM t WHERE t NOT IN {(*FAILED, *UNSCORED)} AND {SEEN_FILTER.format('')}"

    def predicted() -> list[int]:
        (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows
        return [call["predicted"]["calls"] for call in json.loads(row["plan"])["operators"][0]["calls"]]

    own, proxy = predicted()
    assert 0 < own < proxy
    assert ask(session, sql).record.call_rows()[1]["calls"] == proxy
    assert predicted() == [0, 0]


RARE: Labels = {f"item {i}": i % 20 == 7 for i in range(1_000)}


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over a table of 1,000 items, one in twenty of which is rare."""
    models = {"demo": Model.of(RARE), "small": Model.of(RARE, error=0.02, scores="calibrated")}
    with simulated(models):
        database = open_database(tmp_path_factory.mktemp("rare"))
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small')")
        session.update("CREATE TABLE t AS SELECT value AS i, 'item ' || value AS t FROM generate_series(0, 999)")
        yield session
        database.close()


def test_a_limit_asks_about_the_likeliest_rows(rare: Session) -> None:
    """Under a LIMIT the proxy picks the rows, and at most the allowed number of them goes unasked."""
    rare.update("TRUNCATE system.cache")
    exact = ask(rare, "SELECT t FROM t WHERE ai_filter('Is it?', t) LIMIT 20")
    rare.update("TRUNCATE system.cache")
    sql = "SELECT t FROM t WHERE ai_filter('Is it?', t, recall => 0.9, precision => 0.9, proxy => 'small') LIMIT 20"
    ran = ask(rare, sql)
    own, proxy = sites(ran)
    assert len(ran.rows) == len({row["t"] for row in ran.rows}) == 20
    assert sum(bool(RARE[row["t"]]) for row in ran.rows) >= 18
    assert own["calls"] < 0.4 * exact.calls
    assert proxy["calls"] <= 1_000
    promise = own["promise"]
    assert promise["precision"] >= 0.9
    assert promise["recall"] is None
    assert promise["delta"] == 0


def test_a_limit_that_needs_all_rows_finds_all(rare: Session) -> None:
    """Where a LIMIT needs more rows than there are, each likely and each unlikely row is asked."""
    rare.update("TRUNCATE system.cache")
    ran = ask(rare, "SELECT t FROM t WHERE ai_filter('Is it?', t, recall => 0.9, proxy => 'small') LIMIT 900")
    assert {row["t"] for row in ran.rows} == {text for text, label in RARE.items() if label}
    assert ran.calls == 1_000  # a score of a row that is asked in any case would be wasted


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("NOT {}", lambda _, label: not label),
        ("{} OR i % 2 = 0", lambda i, label: label or i % 2 == 0),
        ("CASE WHEN i < 900 THEN {} ELSE true END", lambda i, label: label or i >= 900),
    ],
)
def test_other_conditions_under_a_limit(rare: Session, condition: str, holds: Callable[[int, Label], bool]) -> None:
    """The rows that pass are right, whatever the condition does with the answers."""
    rare.update("TRUNCATE system.cache")
    call = "ai_filter('Is it?', t, precision => 0.999, proxy => 'small')"
    ran = ask(rare, f"SELECT i, t FROM t WHERE {condition.format(call)} LIMIT 30")
    assert len({row["i"] for row in ran.rows}) == 30
    assert all(holds(row["i"], RARE[row["t"]]) for row in ran.rows)


def test_several_promises_are_explained(session: Session) -> None:
    """EXPLAIN says that rows can be lost in each of several filters, also in the inputs of a join."""
    one = plan_lines(session, f"SELECT i FROM t WHERE {SEEN_FILTER.format('')}")
    assert not [text for text in one.values() if "multiply" in text]
    other = SEEN_FILTER.format("").replace("seen", "green")
    for sql in (
        f"SELECT i FROM t WHERE {SEEN_FILTER.format('')} AND {other}",
        f"""SELECT a.i FROM (SELECT i FROM t WHERE {SEEN_FILTER.format("")}) AS a
            JOIN (SELECT i FROM t WHERE {other}) AS b ON a.i = b.i""",
    ):
        assert sum("multiply" in text for text in plan_lines(session, sql).values()) == 2


def test_a_spent_budget_leaves_rows_without_answers(session: Session) -> None:
    """With `on_budget` = 'null', rows that the budget refuses are NULL, and no promise hides them."""
    call = SEEN_FILTER.format("").replace("seen?", "seen at all?").replace("0.9,", "0.99,")
    limits = {"flightllm.max_calls": "900", "flightllm.on_budget": "null"}  # half of the rows are predicted to be asked
    ran = ask(session, f"SELECT i, {call} AS x FROM t", **limits)
    own, proxy = sites(ran)
    assert own["calls"] + proxy["calls"] <= 900
    assert sum(row["x"] is None for row in ran.rows) == own["promise"]["unanswered"] + (N + N // 5) // 50
    assert "budget is spent" in ran.record.row()["error"]


def test_joins_and_pairs(session: Session) -> None:
    """A promise over the pairs of a join is about the pairs that the rest of the condition leaves."""
    call = "ai_filter('Is it seen?', a.t, recall => 0.9, precision => 0.9, proxy => 'small')"
    ran = ask(session, f"SELECT a.i, b.i AS j FROM t AS a JOIN t AS b ON a.g = b.g AND b.i < 10 AND {call}")
    right = {(i, j) for i in wanted(session) for j in range(10) if i % 5 == j % 5}
    found = {(row["i"], row["j"]) for row in ran.rows}
    assert len(found & right) >= 0.9 * max(len(found), len(right))


def test_without_the_optimizer_all_rows_are_asked(session: Session) -> None:
    """Batch functions ask the model about every row, which keeps any promise."""
    sql = f"SELECT i FROM t WHERE {SEEN_FILTER.format('')} AND i < 100"
    ran = ask(session, sql, optimizer="off")
    assert positives(ran) == wanted(session, "i < 100")
    session.update("SET flightllm.optimizer = 'off'")
    assert "by asking the model about every row" in "\n".join(plan_lines(session, sql).values())
