"""Approximate aggregates through SQL: values, intervals, calls, budgets, and what they refuse."""

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import EmbeddingConfig
from flightllm.errors import AICallError, BudgetExceededError, FlightLLMError, InvalidInputError
from flightllm.operators.sets.approximate import _beside
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, open_database
from tests.simulated import Labels, Model, VectorModel, simulated

ROWS = 1_500
LABELS = {f"text {n}": n * 7919 % 10 < 3 for n in range(ROWS)}
TRUTH = sum(LABELS.values())
SCORES = {f"text {n}": n * 7919 % 5 for n in range(ROWS)}
FAILING = [f"text {n}" for n in range(0, ROWS, 5)]
GOOD = "approx_ai_count('Good? {t}', t, within => 0.1"


@pytest.fixture(scope="module", autouse=True)
def models() -> Iterator[None]:
    """Put simulated models in the place of the fake ones."""
    questions: dict[str, Labels] = {"Good": LABELS, "Rate": SCORES}
    with simulated(
        {
            "demo": Model(questions),
            "small": Model.of(LABELS, error=0.05, scores="calibrated"),
            "noise": Model.of(LABELS, scores="random"),
            "breaks": Model(questions, fails=FAILING),
        },
        VectorModel(LABELS, noise=0.5),
    ):
        yield


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with the table `r`, whose answers nobody knows."""
    with closing(_open(tmp_path)) as database:
        yield database.session()


def _open(folder: Path, embedding: EmbeddingConfig | None = None) -> Database:
    database = open_database(folder, embedding=embedding)
    session = database.session()
    for name in ("small", "noise", "breaks"):
        session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}')")
    session.update(
        f"CREATE TABLE r AS SELECT 'text ' || value AS t, value % 3 AS g FROM generate_series(0, {ROWS - 1})"
    )
    return database


def test_it_counts_about_right_with_few_calls(session: Session) -> None:
    """The value is a number as of count(*), near the truth; a rerun sends nothing and says the same."""
    first = ask(session, f"SELECT {GOOD}) AS n FROM r")
    assert abs(first.rows[0]["n"] - TRUTH) <= 0.1 * ROWS
    assert first.calls < ROWS / 3
    again = ask(session, f"SELECT {GOOD}) AS n FROM r")
    assert (again.calls, again.rows) == (0, first.rows)


def test_bounds_tell_the_interval(session: Session) -> None:
    """A struct has the interval, and how many rows and prompts there were."""
    found = ask(session, f"SELECT {GOOD}, bounds => true) AS n FROM r").rows[0]["n"]
    assert found["low"] <= TRUTH <= found["high"]
    assert found["low"] <= found["value"] <= found["high"]
    assert found["high"] - found["low"] <= 0.2 * ROWS
    assert (found["rows"], found["failed"]) == (ROWS, 0)
    assert 0 < found["asked"] < ROWS / 3


def test_a_narrower_wish_reuses_the_sample(session: Session) -> None:
    """The first answers are those that a wider interval has bought."""
    wide = ask(session, f"SELECT {GOOD}) FROM r")
    narrow = ask(session, "SELECT approx_ai_count('Good? {t}', t, within => 0.07) FROM r")
    assert narrow.cache_hits >= 0.8 * wide.calls
    assert narrow.calls > 0


def test_a_proxy_saves_questions(session: Session) -> None:
    """The proxy scores all rows; the call's own model is asked about fewer."""
    own = ask(session, "SELECT approx_ai_count('Good? {t}', t, within => 0.05, bounds => true) AS n FROM r").rows[0][
        "n"
    ]
    ran = ask(
        session, "SELECT approx_ai_count('Good? {t}', t, within => 0.05, bounds => true, proxy => small) AS n FROM r"
    )
    found = ran.rows[0]["n"]
    assert found["asked"] < own["asked"] / 1.5
    assert found["low"] <= TRUTH <= found["high"]
    sites = {row["model"]: row["calls"] for row in ran.record.call_rows()}
    assert sites["small"] == ROWS


def test_vectors_are_a_proxy(tmp_path: Path) -> None:
    """The embedding model is a proxy that learns from the answers."""
    with closing(_open(tmp_path, EmbeddingConfig("fake"))) as database:
        ran = ask(
            database.session(),
            "SELECT approx_ai_count('Good? {t}', t, within => 0.05, bounds => true, proxy => 'embedding') AS n FROM r",
        )
    found = ran.rows[0]["n"]
    assert found["low"] <= TRUTH <= found["high"]
    assert found["asked"] < 300
    assert {row["function"] for row in ran.record.call_rows()} == {"approx_ai_count", "ai_embed"}


def test_a_row_filter_hides_rows(tmp_path: Path) -> None:
    """A user who sees a part of a table gets the count of that part, and no more rows are told."""
    with closing(_open(tmp_path)) as database:
        database.access.store.add_user(User("ann", "readonly"))
        admin = database.session()
        for statement in ("GRANT SELECT ON TABLE r TO ann", "CREATE ROW FILTER ON r TO ann AS g = 0"):
            admin.update(statement)
        ann = database.session(Principal("ann", "readonly"))
        found = ask(ann, f"SELECT {GOOD}, bounds => true) AS n FROM r").rows[0]["n"]
    assert found["rows"] == ROWS / 3
    assert found["low"] <= sum(LABELS[f"text {n}"] for n in range(0, ROWS, 3)) <= found["high"]


def test_groups_and_filter(session: Session) -> None:
    """GROUP BY, FILTER and HAVING work as with other aggregates."""
    rows = ask(session, f"SELECT g, {GOOD}, bounds => true) AS n FROM r GROUP BY g ORDER BY g").rows
    for row in rows:
        truth = sum(LABELS[f"text {n}"] for n in range(ROWS) if n % 3 == row["g"])
        assert row["n"]["low"] <= truth <= row["n"]["high"]
        assert row["n"]["rows"] == ROWS / 3
    few = ask(session, f"SELECT {GOOD}, bounds => true) FILTER (WHERE g = 1) AS n, count(*) AS all FROM r").rows[0]
    assert few["n"]["low"] <= sum(LABELS[f"text {n}"] for n in range(1, ROWS, 3)) <= few["n"]["high"]
    assert (few["n"]["rows"], few["all"]) == (ROWS / 3, ROWS)
    assert not ask(session, f"SELECT g FROM r GROUP BY g HAVING {GOOD}) > {ROWS}").rows


def test_small_groups_are_exact(session: Session) -> None:
    """A small group is asked in full; an empty one has the count 0, no mean and no sum."""
    text = "SELECT {} AS n FROM r WHERE t LIKE 'text 1_' OR t = 'text 3'"
    found = ask(session, text.format(f"{GOOD}, bounds => true)")).rows[0]["n"]
    assert found["low"] == found["high"] == found["value"] == sum(LABELS[f"text {n}"] for n in (3, *range(10, 20)))
    assert found["asked"] == 11
    empty = "approx_ai_avg('Rate {t}', t, low => 0, high => 4), approx_ai_sum('Rate {t}', t, low => 0, high => 4)"
    assert list(ask(session, f"SELECT {GOOD}), {empty} FROM r WHERE false").rows[0].values()) == [0, None, None]


def test_rows_with_null_and_duplicates(session: Session) -> None:
    """NULL is not counted as yes, and equal rows share a prompt and count each."""
    session.update(
        "CREATE TABLE s AS SELECT nullif(t, 'text 1') AS t FROM (SELECT t FROM r WHERE t IN ('text 0', 'text 1')"
        " UNION ALL SELECT 'text 0' UNION ALL SELECT 'text 3')"
    )
    ran = ask(
        session, f"SELECT {GOOD}, bounds => true) AS n, approx_ai_avg('Rate {{t}}', t, low => 0, high => 4) AS m FROM s"
    )
    assert ran.rows[0]["n"]["value"] == 2 * LABELS["text 0"] + LABELS["text 3"]
    assert (ran.rows[0]["n"]["rows"], ran.rows[0]["n"]["asked"]) == (4, 2)
    wanted = ask(session, "SELECT avg(ai_score('Rate {t}', t, low => 0, high => 4)) AS m FROM s").rows[0]["m"]
    assert ran.rows[0]["m"] == pytest.approx(wanted)


def test_means_and_sums(session: Session) -> None:
    """The interval of a mean or a sum has the value of all rows by the same question."""
    call = "('Rate {t}', t, low => 0, high => 4, within => 0.25, bounds => true)"
    row = ask(session, f"SELECT approx_ai_avg{call} AS a, approx_ai_sum{call} AS s FROM r").rows[0]
    exact = ask(session, "SELECT ai_score('Rate {t}', t, low => 0, high => 4) AS s FROM r").rows
    total = sum(one["s"] for one in exact)
    assert row["a"]["low"] <= total / ROWS <= row["a"]["high"]
    assert row["s"]["low"] <= total <= row["s"]["high"]
    assert row["a"]["high"] - row["a"]["low"] <= 0.5 + 1e-9
    assert row["a"]["asked"] < ROWS / 2


def test_failed_answers_are_told(session: Session) -> None:
    """A failed answer counts as no, and is left out of a mean; the notice says so."""
    ran = ask(session, f"SELECT {GOOD}, model => breaks, bounds => true) AS n FROM r")
    truth = sum(value for text, value in LABELS.items() if text not in FAILING)
    found = ran.rows[0]["n"]
    assert found["low"] <= truth <= found["high"]
    assert found["failed"] > 0
    assert "they count as no" in ran.record.warnings[0]
    ran = ask(
        session,
        "SELECT approx_ai_avg('Rate {t}', t, low => 0, high => 4, within => 0.3, bounds => true,"
        " model => breaks) AS m FROM r",
    )
    rest = [value for text, value in SCORES.items() if text not in FAILING]
    assert ran.rows[0]["m"]["low"] <= sum(rest) / len(rest) + 0.1
    assert ran.rows[0]["m"]["high"] >= sum(rest) / len(rest) - 0.1
    with pytest.raises(FlightLLMError, match="simulated model fails"):
        ask(session, f"SELECT {GOOD}, model => breaks, on_error => 'fail') FROM r")


def test_a_label_budget_is_kept(session: Session) -> None:
    """No more prompts are sent, over all groups, and a notice tells the width of the interval."""
    ran = ask(
        session, "SELECT g, approx_ai_count('Good? {t}', t, label_budget => 100, bounds => true) AS n FROM r GROUP BY g"
    )
    assert ran.calls <= 100
    assert "the label budget is spent" in ran.record.warnings[0]
    for row in ran.rows:
        truth = sum(LABELS[f"text {n}"] for n in range(ROWS) if n % 3 == row["g"])
        assert row["n"]["low"] <= truth <= row["n"]["high"]


def test_a_budget_makes_the_interval_wide(session: Session) -> None:
    """With on_budget = 'null', the answers so far make an interval; otherwise the query fails."""
    text = "SELECT approx_ai_count('Good? {t}', t, within => 0.03, proxy => noise, bounds => true) AS n FROM r"
    most = ROWS + 640  # more than the forecast expects with a proxy, and less than a useless proxy takes
    with pytest.raises(BudgetExceededError, match="already received"):
        ask(session, text, max_calls=str(most), on_budget="fail")
    ran = ask(session, text.replace("Good?", "Good now?"), max_calls=str(most), on_budget="null")
    found = ran.rows[0]["n"]
    assert ran.calls <= most
    assert found["low"] <= TRUTH <= found["high"]
    assert found["high"] - found["low"] > 0.06 * ROWS
    assert any("the interval is ±" in one for one in ran.record.warnings)


def test_known_answers_are_counted_exactly(session: Session) -> None:
    """Answers that a filter has bought, only those of yes, neither are bought again nor bias the sample."""
    ask(session, "SELECT count(*) FROM r WHERE g < 2 AND ai_filter('Good? {t}', t)")
    ran = ask(session, "SELECT approx_ai_count('Good? {t}', t, within => 0.05, bounds => true) AS n FROM r")
    found = ran.rows[0]["n"]
    assert found["low"] <= TRUTH <= found["high"]
    assert found["asked"] < 200
    assert ran.cache_hits >= ROWS / 2


def test_a_rerun_beside_known_answers_buys_nothing(session: Session) -> None:
    """The second run draws the sample of the first one, also after a prediction, and with more known answers."""
    text = "SELECT approx_ai_count('Good? {t}', t, within => 0.05, bounds => true) AS n FROM r"
    ask(session, "SELECT count(*) FROM r WHERE g < 1 AND ai_filter('Good? {t}', t)")
    explained(session, text)
    first = ask(session, text)
    assert first.calls > 0
    for _ in range(2):
        again = ask(session, text)
        assert (again.calls, again.rows) == (0, first.rows)
    ask(session, "SELECT count(*) FROM r WHERE g = 1 AND ai_filter('Good? {t}', t)")
    assert ask(session, text).rows == first.rows
    ask(session, "SELECT count(*) FROM r WHERE ai_filter('Good? {t}', t)")
    exact = ask(session, text).rows[0]["n"]
    assert (exact["low"], exact["high"]) == (TRUTH, TRUTH)


def test_stream_yields_each_wave(session: Session) -> None:
    """Each wave is a row; the last one is final, and the same as without `stream`."""
    session.update("CREATE TABLE one AS SELECT t FROM r")
    text = "SELECT approx_ai_count('Good? {t}', t, within => 0.05, {}) AS n FROM one"
    rows = [row["n"] for row in ask(session, text.replace("{}", "stream => true")).rows]
    assert [row.pop("final") for row in rows] == [False] * (len(rows) - 1) + [True]
    assert len(rows) > 3
    assert all(row["low"] <= TRUTH <= row["high"] for row in rows)
    assert rows[-1] == ask(session, text.replace("{}", "bounds => true")).rows[0]["n"]


def test_streamed_rows_are_counted_once(session: Session) -> None:
    """The record has each group once, and not once a wave."""
    ran = ask(session, f"SELECT g, {GOOD}, stream => true) AS n FROM r GROUP BY g")
    assert len(ran.rows) > 3 * 2
    text = f"SELECT rows FROM system.ai_calls WHERE query_id = '{ran.record.query_id}'"
    assert [row["rows"] for row in ask(session, text).rows] == [3]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {GOOD}, stream => true) AS n FROM r GROUP BY g ORDER BY g",
        f"SELECT sum(n['value']) FROM (SELECT {GOOD}, stream => true) AS n FROM r GROUP BY g)",
        f"SELECT {GOOD}, stream => true) AS n, {GOOD}) AS m FROM r",
        f"SELECT {GOOD}, stream => true) AS n FROM r UNION ALL SELECT NULL",
    ],
)
def test_stream_needs_the_query_for_itself(session: Session, text: str) -> None:
    """No part of a query reads rows that are not final."""
    with pytest.raises(InvalidInputError, match="stream => true"):
        ask(session, text)
    with pytest.raises(InvalidInputError, match="stores them"):
        session.update(f"CREATE TABLE kept AS SELECT {GOOD}, stream => true) AS n FROM r")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("approx_ai_count('Good? {t}', t, within => 0)", "within must be above 0"),
        ("approx_ai_count('Good? {t}', t, within => 1.5)", "such as within => 0.02"),
        ("approx_ai_avg('Rate {t}', t, low => 1, high => 5, within => 9)", "below 4"),
        ("approx_ai_avg('Rate {t}', t, low => 5, high => 1)", "must be less than"),
        ("approx_ai_count('Good? {t}', t, confidence => 1)", "confidence must be above 0 and below 1"),
        ("approx_ai_count('Good?')", "needs a field"),
        ("approx_ai_count('Good? {t}', t, proxy => 'nobody')", "nobody"),
        ("approx_ai_count('Good? {t}', DISTINCT t)", "SELECT DISTINCT in a subquery"),
        ("approx_ai_count('Good? {t}', t) OVER ()", "use GROUP BY"),
        ("approx_ai_count('Good? {t}', t, recall => 0.9)", "recall"),
    ],
)
def test_bad_calls_are_told(session: Session, call: str, told: str) -> None:
    """The error says what to write."""
    with pytest.raises(AICallError, match=told):
        ask(session, f"SELECT {call} FROM r")


def test_explain_predicts_and_analyze_tells(session: Session) -> None:
    """EXPLAIN has the wish and the predicted calls of model and proxy; EXPLAIN ANALYZE the interval."""
    text = "SELECT approx_ai_count('Good? {t}', t, within => 0.05, proxy => small) FROM r"
    plan = "\n".join(explained(session, text).values())
    assert "until the interval is ±0.05 of the rows at confidence 0.95; model small predicts all rows" in plan
    assert f"{ROWS:,}" in plan
    rows = ask(session, f"EXPLAIN ANALYZE {text}").rows
    assert "the interval is ±" in "\n".join(row["plan"] for row in rows)


def test_a_sample_beside_known_answers_is_a_new_one() -> None:
    """The salt depends on the answers that are known, and on nothing else about them."""
    known = np.array([1.0, math.nan, 0.0, math.nan])
    assert _beside("s", known) == _beside("s", np.array([0.0, math.nan, 0.0, math.nan]))
    assert _beside("s", known) != _beside("s", np.array([1.0, 0.0, math.nan, math.nan]))
