"""EXPLAIN predicts the calls of a promise: from the last run of the question, over other rows."""

import json
from collections.abc import Iterator
from contextlib import closing
from statistics import median

import numpy as np
import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, open_database
from tests.simulated import Labels, Model, simulated

ROWS = 6_000
SHAPES = {
    "filter": "SELECT i FROM t WHERE i BETWEEN {} AND {} AND ai_filter('Is it red?', v, recall => .9, precision => .9)",
    "sure": "SELECT i FROM t WHERE i BETWEEN {} AND {} AND"
    " ai_filter('Is it red?', v, recall => .8, precision => .8, confidence => .9)",
    "score": "SELECT i FROM t WHERE i BETWEEN {} AND {} AND"
    " ai_score('How big?', v, recall => .9, precision => .9) >= 6",
    "label": "SELECT i, ai_classify(v, ['a', 'b', 'c'], accuracy => .9) AS l FROM t WHERE i BETWEEN {} AND {}",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a table whose rows two simulated models answer: the server's own, and its proxy `small`."""
    drawn = np.random.default_rng(5)
    values = [f"v{number}" for number in range(ROWS)]
    questions: dict[str, Labels] = {
        "red": {value: bool(drawn.random() < 0.3) for value in values},
        "big": {value: int(drawn.integers(11)) for value in values},
        "label": {value: "abc"[drawn.integers(3)] for value in values},
    }
    models = {"demo": Model(questions), "small": Model(questions, error=0.08, scores="calibrated", seed=3)}
    with simulated(models), closing(open_database(tmp_path_factory.mktemp("predicted"))) as database:
        session = database.session()
        price = "price_input 0.1, price_output 0.1"
        session.update(f"CREATE MODEL small OPTIONS (engine 'fake', model 'small', proxy_for 'default', {price})")
        session.update("CREATE TABLE t (i BIGINT, v VARCHAR)")
        rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(values))
        session.update(f"INSERT INTO t VALUES {rows}")
        yield database


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it, whose calls take the proxy `small` and read no answers of other tests."""
    session = database.session()
    session.update("SET flightllm.cache = 'off'")
    return session


def named(shape: str, first: int, last: int) -> str:
    """Return a query over some rows."""
    return (
        SHAPES[shape]
        .format(first, last)
        .replace("precision => .9)", "precision => .9, proxy => 'small')")
        .replace("accuracy => .9)", "accuracy => .9, proxy => 'small')")
        .replace("confidence => .9)", "confidence => .9, proxy => 'small')")
    )


def predicted(session: Session, sql: str) -> tuple[int, float]:
    """Return the predicted calls of the call's own model, and their predicted share of the prompts."""
    (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows
    call = json.loads(row["plan"])["operators"][0]["calls"][0]
    assert call["role"] is None
    return call["predicted"]["calls"], call["predicted_share"]


def error(session: Session, sql: str) -> float:
    """Explain and run a query; return the error of the predicted calls of its own model, relative to its calls."""
    calls, _ = predicted(session, sql)
    own = next(site for site in ask(session, sql).record.call_rows() if site["model"] is None)
    return abs(calls / int(own["calls"]) - 1)


@pytest.mark.parametrize("shape", ["filter", "label"])
def test_after_a_run(session: Session, shape: str) -> None:
    """The first prediction assumes a share; after a run over other rows the calls are near."""
    assert predicted(session, named(shape, 0, 799)) == (400, 0.5)
    ask(session, named(shape, 0, 799))
    errors = [error(session, named(shape, first, first + size)) for first, size in ((1_000, 799), (2_000, 499))]
    assert median(errors) < 0.2


@pytest.mark.slow
def test_fifty_queries(session: Session) -> None:
    """Over fifty queries of four questions, sizes and targets, the median error is below a fifth."""
    for shape in SHAPES:
        ask(session, named(shape, 0, 999))
    drawn, errors = np.random.default_rng(1), list[float]()
    for number in range(50):
        size = int(drawn.choice((300, 600, 1_200)))
        first = int(drawn.integers(1_000, ROWS - size))
        errors.append(error(session, named(list(SHAPES)[number % 4], first, first + size - 1)))
    assert median(errors) < 0.2


def test_share_of_nothing(session: Session) -> None:
    """Without rows, EXPLAIN ANALYZE tells no share of the prompts."""
    shown = explained(session, f"ANALYZE {named('filter', 1, 0)}")
    assert "calls" in str(shown)
    assert "share of the prompts" not in str(shown)


def test_shown(session: Session) -> None:
    """EXPLAIN tells the share, whether it was learned, and the work and price without the proxy."""
    sql = named("score", 0, 299)
    shown = explained(session, sql)
    assert "share of the prompts that the model gets: 50.0 %, assumed, because no earlier run tells it" in str(shown)
    assert "proxies" in shown["saved"]
    ask(session, sql)
    assert "as in the last run" in str(explained(session, sql))
