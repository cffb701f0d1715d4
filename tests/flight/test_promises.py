"""Promises over ADBC, in a server process whose models are simulated: the labels say what is right."""

import json
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from tests.servers import ask
from tests.simulated import Answerer, Label, Labels, Model, SimulatedServer

ROWS, MORE = 800, 4_000
VALUES = [f"row {n}" for n in range(MORE)]
SPAM = {value: n % 4 == 0 for n, value in enumerate(VALUES)}
FEW = {value: n % 3 > 0 for n, value in enumerate(VALUES)}
KINDS: dict[str, Label] = {value: ("bug", "praise", "question")[n % 3] for n, value in enumerate(VALUES)}
FAILED = ["row 0", "row 8", "row 12"]
QUESTIONS: dict[str, Labels] = {"spam": SPAM, "urgent": FEW, "Classify": KINDS}
ORACLE = Answerer(Model(QUESTIONS, error=0.02, fails=FAILED))
GOAL = "proxy => 'small', recall => 0.9, precision => 0.9"
CALL = f"ai_filter('Is it spam? {{t}}', t, {GOAL})"
"""A call with a promise."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedServer]:
    """Return a server with a table of texts: each fifth one is there twice, and some are NULL."""
    models = {
        "demo": Model(QUESTIONS, error=0.02, fails=FAILED),
        "small": Model(QUESTIONS, error=0.05, scores="calibrated", seed=1),
    }
    options = {"small": {"proxy_for": "default"}}
    with SimulatedServer(tmp_path_factory.mktemp("server"), models, options=options) as running:
        running.query(
            f"""CREATE TABLE r AS SELECT value AS i, CASE WHEN value % 50 = 49 THEN NULL
                ELSE 'row ' || (value % {ROWS}) END AS t FROM generate_series(0, {ROWS + ROWS // 5 - 1})"""
        )
        yield running


def right(question: str, value: str) -> Label:
    """Return what the oracle answers; a failed answer is NULL, so it is never right."""
    options = ("bug", "praise", "question") if question == "Classify" else ("Yes", "No")
    text = ORACLE.answer(question, value, options).text or ""
    return text if question == "Classify" else text == "Yes"


@pytest.fixture
def cursor(server: SimulatedServer) -> Iterator[flight_sql.Cursor]:
    """Return a cursor on a connection of its own, whose statements keep no answers."""
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as opened:
        ask(opened, "SET flightllm.cache = off")
        yield opened


def figures(cursor: flight_sql.Cursor) -> dict[str, Any]:
    """Return the figures of the newest call with a promise."""
    sql = "SELECT promise FROM system.ai_calls WHERE promise IS NOT NULL"
    found = ask(cursor, sql)[-1][0]
    return dict(json.loads(found) if isinstance(found, str) else found)


def test_counts_equal_a_recount(server: SimulatedServer, cursor: flight_sql.Cursor) -> None:
    """Rows, NULLs, failed answers and repeated values are counted as the labels and the prompts say."""
    before, proxied = len(server.asked()), len(server.asked("small"))
    rows = ask(cursor, f"SELECT i, t FROM r WHERE {CALL}")
    asked, scored = server.asked()[before:], server.asked("small")[proxied:]
    total = ask(cursor, "SELECT i, t FROM r WHERE t IS NOT NULL")
    wanted = {i for i, t in total if right("spam", t)}
    found = {i for i, _ in rows}
    both = len(found & wanted)
    told = figures(cursor)
    assert told["rows"] == len(total)
    assert told["prompts"] == len({t for _, t in total}) == len(scored)
    assert told["asked_prompts"] == len(asked) == len(set(asked)) < 0.7 * len(scored)
    assert told["asked"] == sum(t in set(asked) for _, t in total)
    assert told["accepted"] == len(found)
    assert told["unanswered"] == sum(t in FAILED and t in asked for _, t in total)
    assert told["rejected"] == told["rows"] - told["accepted"] - told["unanswered"]
    assert both / len(wanted) >= max(told["recall"], 0.9)
    assert both / len(found) >= max(told["precision"], 0.9)


@pytest.mark.parametrize(
    ("sql", "exact"),
    [
        (f"SELECT count(*) FROM (SELECT 1 AS one) AS o WHERE EXISTS (SELECT 1 FROM r WHERE {CALL})", True),
        (f"SELECT count(*) FROM r WHERE i < 400 AND {CALL}", False),
        (f"SELECT count(CASE WHEN i < 400 THEN {CALL} END) FROM r", False),
    ],
)
def test_places_of_a_call(server: SimulatedServer, cursor: flight_sql.Cursor, sql: str, exact: bool) -> None:
    """EXISTS asks few rows of the model itself; predicates and guards bound the rows that are scored."""
    proxied = len(server.asked("small"))
    ask(cursor, sql)
    scored = server.asked("small")[proxied:]
    assert len(scored) == (0 if exact else len({f"row {n}" for n in range(400) if n % 50 < 49}))


def test_bound_target(cursor: flight_sql.Cursor) -> None:
    """A target can be a bound number, or a text of a number; another text is refused as a constant is."""
    sql = "SELECT count(*) FROM r WHERE i < 4 AND ai_filter('Is it spam? {t}', t, proxy => 'small', recall => ?)"
    for value in (0.9, "0.9", None):
        cursor.execute(sql, (value,))
        assert cursor.fetchall() == [(0,)]
    with pytest.raises(flight_sql.Error, match="recall must be a number, not 'high'"):
        cursor.execute(sql, ("high",))


def test_limit(server: SimulatedServer, cursor: flight_sql.Cursor) -> None:
    """LIMIT returns rows that the model confirms, and asks about few others."""
    before = len(server.asked())
    rows = ask(cursor, f"SELECT t FROM r WHERE {CALL} LIMIT 5")
    assert len(rows) == 5
    assert all(right("spam", t) for (t,) in rows)
    assert len(server.asked()) - before < 100


def whole(server: SimulatedServer, cursor: flight_sql.Cursor, table: str, again: str) -> tuple[float, float, float]:
    """Ask for two filters and labels under a promise for the query.

    Return recall, precision, and the share of the prompts that the query has without a promise.
    """
    ask(cursor, "SET flightllm.quality = 'recall 0.8, precision 0.8, confidence 0.9'")
    before = len(server.asked())
    sql = f"""SELECT t, ai_classify(t, ['bug', 'praise', 'question'], instructions => 'Be brief.{again}') AS kind
              FROM {table}
              WHERE ai_filter('Is it spam?{again} {{t}}', t) AND ai_filter('Is it urgent?{again} {{t}}', t)"""
    rows = ask(cursor, sql)
    prompts = len(server.asked()) - before
    ask(cursor, "RESET flightllm.quality")
    total = [t for (t,) in ask(cursor, f"SELECT t FROM {table} WHERE t IS NOT NULL")]
    spam = [t for t in total if right("spam", t)]
    wanted = [(t, right("Classify", t)) for t in spam if right("urgent", t)]
    good = sum(bool(right("spam", t) and right("urgent", t)) and kind == right("Classify", t) for t, kind in rows)
    exact = len(set(total)) + len(set(spam)) + len(set(wanted))
    return good / len(wanted), good / len(rows), prompts / exact


def test_whole_query(server: SimulatedServer, cursor: flight_sql.Cursor) -> None:
    """Two filters and a classification keep the promise of the query together."""
    recall, precision, share = whole(server, cursor, "r", "")
    assert min(recall, precision) >= 0.8
    assert share <= 1


@pytest.mark.slow
def test_whole_query_often(server: SimulatedServer, cursor: flight_sql.Cursor) -> None:
    """At most one of ten such queries over more rows misses its targets; each asks fewer prompts."""
    server.query(f"CREATE TABLE more AS SELECT 'row ' || value AS t FROM generate_series(0, {MORE - 1})")
    found = [whole(server, cursor, "more", " " * number) for number in range(1, 31)]
    assert sum(min(recall, precision) < 0.8 for recall, precision, _ in found) <= 3
    assert max(share for *_, share in found) < 0.95
