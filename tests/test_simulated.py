"""Simulated models answer as they say, in this process, in a server process, and at an endpoint."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from flightllm.config import EmbeddingConfig, EngineConfig
from flightllm.engines.openai.engine import create
from flightllm.llm.engine import Choice, Parameters, Request
from tests.databases import open_database, rows
from tests.endpoints import endpoint_of
from tests.simulated import Answerer, Model, Scores, SimulatedServer, VectorModel, endpoint_behaviour, simulated

YES_NO = ("Yes", "No")
HALVES = {f"row {n}": n % 2 == 0 for n in range(2_000)}
CLASSES = {f"row {n}": "abcde"[n % 5] for n in range(1_000)}


def answers(model: Model, options: tuple[str, ...] = YES_NO) -> tuple[list[str | None], np.ndarray]:
    """Return a model's answers and probabilities for all values of its first question."""
    answerer = Answerer(model)
    said = [answerer.answer("Is it?", value, options) for value in next(iter(model.questions.values()))]
    return [one.text for one in said], np.array([one.probabilities for one in said])


@pytest.mark.parametrize("scores", ["sure", "calibrated", "overconfident", "hundred", "sly"])
@pytest.mark.parametrize(("labels", "options"), [(HALVES, YES_NO), (CLASSES, tuple("abcde"))])
def test_errors(scores: Scores, labels: dict[str, bool | str], options: tuple[str, ...]) -> None:
    """A stated share of answers is wrong, whatever the scores."""
    texts, _ = answers(Model.of(labels, error=0.1, scores=scores), options)
    wanted = ["Yes" if one is True else "No" if one is False else one for one in labels.values()]
    assert np.mean([a != b for a, b in zip(texts, wanted, strict=True)]) == pytest.approx(0.1, abs=0.04)


def test_calibrated() -> None:
    """Calibrated scores are probabilities also where a label is rare, and inverted ones are their opposites."""
    labels = {f"row {n}": n % 10 == 0 for n in range(4_000)}
    _, found = answers(Model.of(labels, error=0.2, scores="calibrated"))
    truth = np.array(list(labels.values()))
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.4, 1.0)):
        inside = (found[:, 0] >= low) & (found[:, 0] < high)
        assert truth[inside].mean() == pytest.approx(found[inside, 0].mean(), abs=0.06)
    _, inverted = answers(Model.of(labels, error=0.2, scores="inverted"))
    assert np.allclose(inverted[:, 0], found[:, 1])


def test_weak_scores() -> None:
    """Constant and random scores tell nothing, a hundred values are a hundred, and some models have none."""
    _, constant = answers(Model.of(HALVES, scores="constant"))
    assert np.unique(constant).tolist() == [0.5]
    _, random = answers(Model.of(HALVES, scores="random"))
    assert abs(np.corrcoef(random[:, 0], list(HALVES.values()))[0, 1]) < 0.08
    _, hundred = answers(Model.of(HALVES, error=0.1, scores="hundred"))
    assert 20 < len(np.unique(hundred[:, 0])) <= 101
    assert Answerer(Model.of(HALVES, scores="none")).answer("Is it?", "row 0", YES_NO).probabilities is None


def test_numbers() -> None:
    """A number is rated near itself."""
    labels = {f"row {n}": n % 11 for n in range(1_100)}
    texts, found = answers(Model.of(labels, error=0.3, scores="calibrated"), tuple(map(str, range(11))))
    missed = np.array([int(text or 0) for text in texts]) - np.array(list(labels.values()))
    assert np.mean(missed != 0) == pytest.approx(0.3, abs=0.06)
    assert np.abs(found @ np.arange(11) - np.array(list(labels.values()))).mean() < 0.6


def test_in_process(tmp_path: Path) -> None:
    """A database opened in the block asks simulated models, and their requests are counted."""
    labels = {"rose": True, "sky": False, "fire": True}
    models = {"demo": Model.of(labels, fails=["fire"]), "small": Model.of(labels, error=0.4, scores="calibrated")}
    with simulated(models) as simulation, closing(open_database(tmp_path)) as database:
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small')")
        table = "(VALUES ('rose'), ('sky'), ('fire'), ('rose'), (NULL)) AS v(t)"
        found = rows(session, f"SELECT t, ai_filter('Red? {{t}}', t) AS a FROM {table}")
        rows(session, f"SELECT ai_filter('Red? {{t}}', t, model => 'small') AS a FROM {table}")
    assert {row["t"]: row["a"] for row in found} == {"rose": True, "sky": False, "fire": None, None: None}
    assert set(simulation.engines["demo"].values) == set(simulation.engines["small"].values) == set(labels)


def test_vectors() -> None:
    """Vectors of one label are near each other, and noise takes them apart."""
    with simulated({}, VectorModel(HALVES, noise=0.5)) as simulation:
        from flightllm.engines.embed import create_embedder

        found = create_embedder(EmbeddingConfig("fake", "any")).embed(list(HALVES)[:100])
    assert simulation.embedder is not None
    assert simulation.embedder.asked == 100
    near = found @ found.T
    assert near[::2, ::2].mean() > near[::2, 1::2].mean() + 0.5
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_server_process(tmp_path: Path) -> None:
    """A server process answers over ADBC from the labels, and logs the values that each model was asked about."""
    labels = {"rose": True, "sky": False}
    models = {"demo": Model.of(labels), "small": Model({"Red": labels, "Blue": {"rose": False, "sky": True}})}
    with SimulatedServer(tmp_path, models) as server:
        table = "(VALUES ('rose'), ('sky')) AS v(t)"
        assert server.query(f"SELECT t FROM {table} WHERE ai_filter('Red? {{t}}', t)") == [("rose",)]
        asked = "ai_filter('Blue? {t}', t, model => 'small')"
        assert server.query(f"SELECT t FROM {table} WHERE {asked}") == [("sky",)]
        assert sorted(server.asked()) == sorted(server.asked("small")) == ["rose", "sky"]


def test_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint sends the answer and the log probabilities of its options, as the engine `openai` reads them."""
    monkeypatch.setenv("SIMULATED_KEY", "not-needed")
    model = Model.of(HALVES, error=0.1, scores="calibrated")
    wanted = [Answerer(model).answer("Is it?", value, YES_NO) for value in list(HALVES)[:20]]
    with endpoint_of(endpoint_behaviour({"m": model})) as endpoint:
        options = {"base_url": endpoint.url, "provider": "vllm", "api_key": "env:SIMULATED_KEY"}
        parameters = Parameters(constraint=Choice(YES_NO), probability=True)
        requests = [
            Request(place, f"Is it?\n\nt: {value}", parameters, "ai_filter", "Is it?", (("t", value),))
            for place, value in enumerate(list(HALVES)[:20])
        ]
        with closing(create(EngineConfig("openai", "m", options=options))) as engine:
            found = {one.id: one for one in engine.generate(iter(requests), lambda: False)}
    for place, said in enumerate(wanted):
        assert found[place].text == said.text
        assert found[place].probabilities == pytest.approx(said.probabilities, abs=1e-4)
