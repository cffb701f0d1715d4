"""Fits that a query makes first: their calls are predicted, and count against limits before a model is asked."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import BudgetExceededError
from flightllm.execution import accounting
from flightllm.execution.accounting import predict
from flightllm.plan.figures import Figures
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, rows
from tests.simulated import Model, SimulatedEngine, VectorModel, simulated

SQL = "SELECT t, ai_filter('Is {{t}} spam? {}', t, labels => 'labelled') AS found FROM messages"
LABELS = {f"message {at}": at % 3 == 0 for at in range(90)}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, SimulatedEngine]]:
    """Return a database with 60 labelled rows of 90, two of them twice, and the model that it asks."""
    with simulated({"demo": Model.of(LABELS)}, VectorModel(LABELS, noise=0.3)) as simulation:
        engine = EngineConfig("fake", "demo", price_input=1.0, price_output=2.0)
        config = Config(engine=engine, embedding=EmbeddingConfig("fake"), data_folder=tmp_path_factory.mktemp("fits"))
        database = Database.open(config)
        session = database.session()
        session.update("CREATE TABLE messages AS SELECT 'message ' || value AS t FROM generate_series(0, 89)")
        session.update(
            "CREATE TABLE labelled AS SELECT 'message ' || value % 60 AS t, value % 60 % 3 = 0 AS label"
            " FROM generate_series(0, 61)"
        )
        assert rows(session, "SELECT ai_filter('Is {t} spam?', t) AS x FROM messages LIMIT 0") == []  # opens the model
        yield database, simulation.engines["demo"]
        database.close()


def session_of(database: Database, settings: dict[str, str]) -> Session:
    """Return a session with some settings."""
    session = database.session()
    for name, value in settings.items():
        session.set_option(name, value)
    return session


def predicted(session: Session, sql: str) -> dict[str, float]:
    """Return the predicted work of a statement."""
    [row] = rows(session, f"EXPLAIN (FORMAT JSON) {sql}")
    found: dict[str, float] = json.loads(row["plan"])["total"]["predicted"]
    return found


@pytest.mark.parametrize(
    ("limit", "settings", "told"),
    [
        ("max_calls", {}, "90 calls"),
        ("max_tokens", {}, "tokens where"),
        ("max_cost", {}, "a cost of"),
        ("max_calls", {"optimizer": "off"}, "calls where"),
        ("max_calls", {"cache": "off"}, "150 calls"),
    ],
)
def test_refused_before_the_fit(
    opened: tuple[Database, SimulatedEngine], limit: str, settings: dict[str, str], told: str
) -> None:
    """A query whose fit alone is within the limit asks no model if fit and rows together are above it."""
    database, engine = opened
    before, sql, session = len(engine.asked), SQL.format("Now"), session_of(database, settings)
    total = predicted(session, sql)
    tokens = total["prompt_tokens"] + total["completion_tokens"]
    whole = {"max_calls": total["calls"], "max_tokens": tokens, "max_cost": total["price"]}[limit]
    most = 0.8 * whole if limit == "max_cost" else int(0.8 * whole)
    with pytest.raises(BudgetExceededError, match=f"not run: .*{told}"):
        list(session.execute(sql, settings={limit: str(most)}).batches)
    assert len(engine.asked) == before


@pytest.mark.parametrize("settings", [{}, {"cache": "off"}, {"optimizer": "off"}])
def test_predicted(opened: tuple[Database, SimulatedEngine], settings: dict[str, str]) -> None:
    """EXPLAIN asks no model, and predicts as many calls as the query makes, the fit's among them."""
    database, engine = opened
    before, sql, session = len(engine.asked), SQL.format("With " + "".join(settings)), session_of(database, settings)
    told = predicted(session, sql)
    assert len(engine.asked) == before
    assert told["price"] > 0
    session.set_option("max_calls", str(round(told["calls"])))
    found = ask(session, sql)
    assert told["calls"] == len(engine.asked) - before
    assert sum(row["found"] for row in found.rows) == 30
    if not settings:
        assert told["calls"] == 90
        assert predicted(session, sql)["calls"] == 0, "the fit is kept, and so are the answers"


def test_predicted_once(opened: tuple[Database, SimulatedEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit and the whole query each predict their work once to check the limits."""
    made: list[object] = []

    def counted(query: accounting.AskingQuery, *rest: Any, **more: Any) -> Figures:
        made.append(query)
        return predict(query, *rest, **more)

    monkeypatch.setattr(accounting, "predict", counted)
    session = session_of(opened[0], {"max_calls": "500"})
    assert len(ask(session, SQL.format("Once")).rows) == 90
    assert len(made) == len(set(map(id, made))) == 2


def test_shown_apart(opened: tuple[Database, SimulatedEngine]) -> None:
    """EXPLAIN ANALYZE shows the fit's calls under their own title, predicted and real."""
    session = opened[0].session()
    [row] = rows(session, f"EXPLAIN (ANALYZE, FORMAT JSON) {SQL.format('Then')}")
    document = json.loads(row["plan"])
    [fit] = next(one["calls"] for one in document["operators"] if one["operator"] == "the fit of labels")
    assert fit["predicted"]["calls"] == fit["actual"]["calls"] == 60
    assert document["total"]["actual"]["calls"] == 90
