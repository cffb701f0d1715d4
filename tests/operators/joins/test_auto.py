"""`strategy => 'auto'` finds near pairs where no property decides, and does without an embedding model."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.errors import ConfigError, EngineError, MissingExtraError
from flightllm.execution.backends import Backends
from flightllm.session.database import Database
from tests.databases import Ran, ask, open_database
from tests.endpoints import Body, Reply, endpoint_of, refuse
from tests.operators.joins.test_similar import COUNT, SAME, THING, Pairs, pairs, promise
from tests.operators.joins.test_ways import PROPOSED, Of
from tests.simulated import Model, Simulation, VectorModel, simulated

NO_PROPERTY = {**PROPOSED, "possible": False}
WRONG = {**PROPOSED, "relation": "same"}
MOOD = {text: int(text.split()[1]) % 2 for text in THING}
EVERY = {(i, j) for i in range(COUNT) for j in range(COUNT)}
OPPOSITE = {(i, j) for i, j in EVERY if MOOD[f"left {i}"] != MOOD[f"right {j}"]}
FAKE = EmbeddingConfig("fake")
LISTS = 3 * COUNT
"""The prompts of the strategy that shows lists of 50 values; here it finds no match."""


def model(proposed: dict[str, Any]) -> Model:
    """Return a model that knows the things and the moods, and proposes a property."""
    return Model(
        {
            "numbered records": Of(lambda *_: "[]"),
            "left record and a right record": Of(lambda *_: json.dumps(proposed)),
            "the same": Pairs(THING),
            "opposite": Of(lambda a, b: MOOD[a] != MOOD[b]),
            "mood good": Of(lambda text: "good" if MOOD[text] else "bad"),
        }
    )


@contextmanager
def opened(
    folder: Path, proposed: dict[str, Any] = NO_PROPERTY, embedding: EmbeddingConfig = FAKE, noise: float = 0.7
) -> Iterator[tuple[Database, Simulation]]:
    """Open a database of two tables of texts."""
    with (
        simulated({"demo": model(proposed)}, VectorModel(THING, noise)) as simulation,
        closing(open_database(folder, embedding=embedding)) as database,
    ):
        session = database.session()
        for side in ("left", "right"):
            session.update(
                f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t"
                f" FROM generate_series(0, {COUNT - 1})"
            )
        yield database, simulation


def join(strategy: str = "auto", what: str = "the same", options: str = "") -> str:
    """Return a join of the two tables."""
    call = f"ai_filter('Are {{x}} and {{y}} {what}?', x => a.t, y => b.t, strategy => '{strategy}'{options})"
    return f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {call}"


def told(ran: Ran) -> str:
    """Return what EXPLAIN ANALYZE says about the way of the join that ran."""
    found = next(row["notes"] for row in ran.record.call_rows() if row["function"] == "ai_filter")
    return str(found["join"])


@pytest.mark.parametrize("proposed", [NO_PROPERTY, WRONG], ids=["none", "wrong"])
@pytest.mark.parametrize("options", ["", ", recall => 0.8", ", recall => 0.85, precision => 0.9, confidence => 0.9"])
def test_near_pairs_hold(tmp_path: Path, proposed: dict[str, Any], options: str) -> None:
    """Where no property decides, and values have no two classes, the near pairs are asked, and the proof holds."""
    with opened(tmp_path, proposed) as (database, simulation):
        ran = ask(database.session(), join(options=options))
        assert simulation.embedder is not None
        assert simulation.embedder.asked == 2 * COUNT
        found, figures = pairs(ran), promise(ran)
        assert found <= SAME
        assert len(found) >= 0.8 * len(SAME)
        assert figures["held"], figures
        assert figures["proxy"] == "strategy 'embedding'"
        assert ran.calls < 0.6 * COUNT * COUNT
        text = told(ran)
        assert text.startswith("strategy embedding with the ")
        reason = "is not proved" if "precision" in options or not options else "waits for the others"
        assert f"strategy 'map' {reason if proposed is WRONG else 'is left'}" in text
        assert f"strategy 'pivot' {reason}" in text
        assert ask(database.session(), join(options=options)).calls == 0


def test_a_promise_opens_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No embedding model is opened before its way is tried: not by EXPLAIN, another way, a LIMIT or an empty table."""

    def never(_: Backends) -> None:
        raise AssertionError("the embedding model was opened")

    monkeypatch.setattr(Backends, "embedder", never)
    with opened(tmp_path) as (database, _):
        session = database.session()
        session.update("CREATE TABLE few AS SELECT * FROM lefts WHERE id < 2")
        text = "\n".join(line["plan"] for line in ask(session, f"EXPLAIN {join()}").rows)
        assert "embedding " in text.split("questions of each strategy")[1]
        assert pairs(ask(session, join(what="opposite"))) == OPPOSITE
        assert not ask(session, f"{join()} AND a.id < 0").rows
        assert len(ask(session, f"{join()} LIMIT 3").rows) == 3
        assert pairs(ask(session, join().replace("lefts a", "few a"))) == {(i, j) for i, j in SAME if i < 2}


def _all_pairs(database: Database, reason: str) -> None:
    """Check that all pairs are asked, and that EXPLAIN ANALYZE and the promise say why."""
    ran = ask(database.session(), join())
    assert pairs(ran) == SAME
    asked = [row["calls"] for row in ran.record.call_rows() if row["backend"] == "model"]
    assert sum(asked) <= COUNT * COUNT + 1 + LISTS
    assert "strategy pairs" in told(ran)
    assert "strategy 'embedding' is left: the embedding model cannot be used" in told(ran)
    assert reason in told(ran)
    assert "'embedding' is left" in promise(ran)["reason"]


@pytest.mark.slow
def test_no_such_model(tmp_path: Path) -> None:
    """A model that is not there removes the way; a call that names the way has an error."""
    pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
    with opened(tmp_path, embedding=EmbeddingConfig("local", "/no/such/model")) as (database, _):
        _all_pairs(database, "/no/such/model")
        with pytest.raises(ConfigError, match="/no/such/model"):
            ask(database.session(), join("embedding"))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="the extra 'gpu' is installed")
def test_no_extra(tmp_path: Path) -> None:
    """So does an extra that is not installed."""
    with opened(tmp_path, embedding=EmbeddingConfig("vllm", "any")) as (database, _):
        _all_pairs(database, "needs the extra 'gpu'")
        with pytest.raises(MissingExtraError, match="gpu"):
            ask(database.session(), join("embedding"))


def _remote(url: str) -> EmbeddingConfig:
    return EmbeddingConfig("openai", "m", options={"base_url": url, "max_retries": 0, "timeout": 2.0})


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(401, "wrong key", id="key"),
        pytest.param(404, "no such model m", id="model", marks=pytest.mark.slow),
        pytest.param(400, "the input is no text", id="texts", marks=pytest.mark.slow),
    ],
)
def test_an_endpoint_refuses(tmp_path: Path, status: int, message: str) -> None:
    """So does an endpoint that refuses the key, the model, or each text."""

    def behave(path: str, body: Body, number: int) -> Reply:
        del path, body, number
        return refuse(status, message)

    with endpoint_of(behave) as endpoint, opened(tmp_path, embedding=_remote(endpoint.url)) as (database, _):
        _all_pairs(database, message)
        assert len(endpoint.bodies) <= 80
        with pytest.raises(EngineError, match=message):
            ask(database.session(), join("embedding"))


def test_no_endpoint(tmp_path: Path) -> None:
    """So does an address at which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with opened(tmp_path, embedding=_remote(f"http://127.0.0.1:{port}/v1")) as (database, _):
        _all_pairs(database, "cannot be reached")


def test_far_values_fall_back(tmp_path: Path) -> None:
    """Where vectors say nothing either, all pairs are asked, and none of them twice."""
    with opened(tmp_path, noise=30.0) as (database, simulation):
        ran = ask(database.session(), join())
        assert pairs(ran) == SAME
        asked = [request.instruction for request in simulation.engines["demo"].asked]
        assert len(asked) <= COUNT * COUNT + 1 + LISTS
        assert "strategy pairs; strategy 'map' is left" in told(ran)
        assert promise(ran)["proxy"] == "none"
