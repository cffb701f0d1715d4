"""A join by similar vectors asks about near pairs, proves the others on a sample, and else asks about all pairs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.errors import AICallError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.simulated import Model, Simulation, VectorModel, simulated

COUNT, THINGS = 120, 24
THING = {f"{side} {i}": f"thing {(i * 7) % THINGS}" for side in ("left", "right") for i in range(COUNT)}
PARITY = {text: int(text.split()[1]) % 2 for text in THING}
SAME = {(i, j) for i in range(COUNT) for j in range(COUNT) if THING[f"left {i}"] == THING[f"right {j}"]}
CALL = "ai_filter('Are {x} and {y} %s?', x => a.t, y => b.t, strategy => '%s'%s)"


class Pairs(dict[str, Any]):
    """The labels of pairs of values, by a property of each."""

    def __init__(self, of: dict[str, Any]) -> None:
        """`of` has the property of each value."""
        super().__init__()
        self._of = of

    def __contains__(self, key: object) -> bool:
        """Return True: each pair has a label."""
        return True

    def __getitem__(self, key: str) -> bool:
        """Return whether both values have the same property."""
        one, other = key.split(" | ")
        return bool(self._of[one] == self._of[other])


@pytest.fixture(scope="module")
def simulation() -> Iterator[Simulation]:
    """Return models that know the things, and vectors that are near for the same thing."""
    vectors = VectorModel(THING, noise=0.7)
    with simulated({"demo": Model({"the same": Pairs(THING), "alike": Pairs(PARITY)})}, vectors) as found:
        yield found


@pytest.fixture(scope="module")
def database(simulation: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of two tables of texts."""
    del simulation
    database = open_database(tmp_path_factory.mktemp("similar"), embedding=EmbeddingConfig("fake"))
    session = database.session()
    for side in ("left", "right"):
        session.update(
            f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t, value % 3 AS k"
            f" FROM generate_series(0, {COUNT - 1})"
        )
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    return session


def join(what: str = "the same", options: str = "", beside: str = "", kind: str = "") -> str:
    """Return a join of the two tables."""
    call = CALL % (what, "embedding", options)
    return f"SELECT a.id AS i, b.id AS j FROM lefts a {kind} JOIN rights b ON {beside} {call}"


def pairs(ran: Ran) -> set[tuple[int, int]]:
    """Return the pairs of a result, which must have each pair once."""
    found = [(row["i"], row["j"]) for row in ran.rows]
    assert len(found) == len(set(found))
    return set(found)


def promise(ran: Ran) -> dict[str, Any]:
    """Return the figures of the promise of the join's call."""
    found = next(row["promise"] for row in ran.record.call_rows() if row["function"] == "ai_filter")
    return dict(found)


def test_near_pairs_are_asked(session: Session, simulation: Simulation) -> None:
    """No wrong pair comes back, the recall holds, each value is embedded once, and few pairs are asked."""
    ran = ask(session, join())
    found = pairs(ran)
    assert found <= SAME
    assert len(found) >= 0.9 * len(SAME)
    assert simulation.embedder is not None
    assert simulation.embedder.asked == 2 * COUNT
    figures = promise(ran)
    assert figures["held"], figures
    assert figures["asked_prompts"] <= COUNT * COUNT * 0.4
    assert figures["rows"] == COUNT * COUNT
    assert "embedding" in figures["proxy"]
    assert {row["function"] for row in ran.record.call_rows()} == {"ai_filter", "ai_embed"}


@pytest.mark.parametrize("options", [", recall => 0.8", ", recall => 0.8, precision => 0.8, confidence => 0.9"])
def test_targets(session: Session, options: str) -> None:
    """Other targets hold too; a pair without a yes never comes back."""
    found = pairs(ask(session, join(options=options)))
    assert found <= SAME
    assert len(found) >= 0.8 * len(SAME)


def test_a_rerun_asks_nothing(session: Session) -> None:
    """The same query asks about the same pairs."""
    assert ask(session, join()).calls > 0
    assert ask(session, join()).calls == 0


def test_far_values_that_match_fall_back(session: Session) -> None:
    """Where similarity says nothing, all pairs are asked, and each once."""
    ran = ask(session, join("alike"))
    assert pairs(ran) == {(i, j) for i in range(COUNT) for j in range(COUNT) if i % 2 == j % 2}
    assert promise(ran)["proxy"] == "none"
    assert promise(ran)["asked_prompts"] == COUNT * COUNT


def test_beside_an_equality(session: Session) -> None:
    """An equality limits the candidates, and duplicates of rows weigh as rows."""
    ran = ask(session, join(options=", recall => 0.7, confidence => 0.8", beside="a.k = b.k AND"))
    wanted = {(i, j) for i, j in SAME if i % 3 == j % 3}
    assert pairs(ran) <= wanted
    assert len(pairs(ran)) >= 0.7 * len(wanted)


def test_a_left_join(session: Session) -> None:
    """A row without a match is there with NULL."""
    ran = ask(session, join(kind="LEFT"))
    assert {row["i"] for row in ran.rows} == set(range(COUNT))


def test_the_prediction(session: Session) -> None:
    """EXPLAIN prices the strategy, and shows the calls of both models."""
    (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {join()}").rows
    assert 0 < json.loads(row["plan"])["total"]["predicted"]["calls"] < COUNT * COUNT
    text = "\n".join(line["plan"] for line in ask(session, f"EXPLAIN {join()}").rows)
    assert "strategy embedding" in text
    assert f"pairs {COUNT * COUNT:,}, map" in text


def test_the_prediction_of_many_texts(
    session: Session, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many texts, EXPLAIN embeds none of them, and predicts about the same."""

    def predicted() -> list[int]:
        (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {join()}").rows
        total = json.loads(row["plan"])["total"]["predicted"]
        return [total["calls"], total["prompt_tokens"]]

    monkeypatch.setattr("flightllm.operators.joins.similar._MOST_FORESEEN", 100)
    assert simulation.embedder is not None or ask(session, join()).rows
    embedder = simulation.embedder
    assert embedder is not None
    session.update("TRUNCATE system.cache")
    before = embedder.asked
    few = predicted()
    assert embedder.asked == before
    monkeypatch.undo()
    assert predicted() == pytest.approx(few, rel=0.1)
    assert embedder.asked > before


def test_a_spent_budget_promises_nothing(session: Session) -> None:
    """The query warns, and only pairs with an answer come back."""
    session.update("SET flightllm.on_budget = 'null'")
    ran = ask(session, join(), max_calls="300")
    assert pairs(ran) <= SAME
    assert ran.calls <= 300
    assert not promise(ran)["held"]


def test_no_join(session: Session) -> None:
    """The strategy is for joins only."""
    with pytest.raises(AICallError, match="joins two tables"):
        ask(session, "SELECT ai_filter('Good? {t}', t, t, strategy => 'embedding') FROM lefts")
