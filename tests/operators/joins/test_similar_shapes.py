"""A join by similar vectors in other shapes: self-joins, several fields, NULL, and texts without a vector."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.endpoints import Body, Reply, endpoint_of, refuse
from tests.operators.joins.test_similar import COUNT, SAME, THING, Pairs, pairs, promise
from tests.operators.joins.test_ways import Of
from tests.simulated import Model, VectorModel, simulated

LEFT = {(i, j) for i in range(COUNT) for j in range(COUNT) if i < j and THING[f"left {i}"] == THING[f"left {j}"]}
BOTH = {f"left {i}\nnote {i}": THING[f"left {i}"] for i in range(COUNT)} | THING


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over two tables, of which one has a second column of texts."""
    model = Model({"the same": Pairs(THING), "suit": Of(lambda _, a, b: THING[a] == THING[b])})
    folder = tmp_path_factory.mktemp("shapes")
    with (
        simulated({"demo": model}, VectorModel(BOTH, noise=0.6)),
        closing(open_database(folder, embedding=EmbeddingConfig("fake"))) as database,
    ):
        session = database.session()
        for side in ("left", "right"):
            session.update(
                f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t, 'note ' || value AS note"
                f" FROM generate_series(0, {COUNT - 1})"
            )
        session.update("CREATE TABLE holes AS SELECT id, CASE WHEN id % 5 > 0 THEN t END AS t FROM lefts")
        yield session


def join(left: str, right: str, fields: str, what: str = "the same", beside: str = "") -> str:
    """Return a join by similar vectors."""
    call = f"ai_filter('Are {{x}} and {{y}} {what}?', {fields}, strategy => 'embedding', recall => 0.85)"
    return f"SELECT a.id AS i, b.id AS j FROM {left} a JOIN {right} b ON {beside}{call}"


@pytest.mark.parametrize("symmetric", ["", ", symmetric => true"])
def test_a_self_join(session: Session, symmetric: str) -> None:
    """Pairs of one table are asked once."""
    ran = ask(session, join("lefts", "lefts", f"x => a.t, y => b.t{symmetric}", beside="a.id < b.id AND "))
    assert pairs(ran) <= LEFT
    assert len(pairs(ran)) >= 0.85 * len(LEFT)


def test_several_fields(session: Session) -> None:
    """The fields of a side are one text for the embedding model."""
    ran = ask(session, join("lefts", "rights", "x => a.t, note => a.note, y => b.t", "suit"))
    assert promise(ran)["proxy"] == "strategy 'embedding'"
    assert pairs(ran) <= SAME
    assert len(pairs(ran)) >= 0.85 * len(SAME)


def test_null(session: Session) -> None:
    """NULL matches nothing, and is not embedded."""
    wanted = {(i, j) for i, j in SAME if i % 5 > 0}
    ran = ask(session, join("holes", "rights", "x => a.t, y => b.t"))
    assert pairs(ran) <= wanted
    assert len(pairs(ran)) >= 0.85 * len(wanted)


def test_short_numbers(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of many values have shorter numbers, which give about the same pairs."""
    monkeypatch.setattr("flightllm.operators.joins.vectors._SINGLE_BYTES", 1)
    session.update("TRUNCATE system.cache")
    ran = ask(session, join("lefts", "rights", "x => a.t, y => b.t"))
    assert promise(ran)["proxy"] == "strategy 'embedding'"
    assert len(pairs(ran)) >= 0.85 * len(SAME)


def test_some_texts_have_no_vector(tmp_path: Path) -> None:
    """Where an endpoint refuses some texts, their pairs are far, and the recall holds all the same."""
    vectors = {
        thing: [float(place == at) for place in range(24)] for at, thing in enumerate(sorted(set(THING.values())))
    }

    def behave(path: str, body: Body, number: int) -> Reply:
        del path, number
        texts: list[str] = body["input"]
        if any(text.endswith("33") for text in texts):
            return refuse(400, "this text is not allowed")
        data = [
            {"object": "embedding", "index": n, "embedding": vectors[THING[t]] if t in THING else [1.0] * 24}
            for n, t in enumerate(texts)
        ]
        return 200, {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}, {}

    model = Model({"the same": Pairs(THING)})
    with endpoint_of(behave) as endpoint, simulated({"demo": model}):
        embedding = EmbeddingConfig("openai", "m", options={"base_url": endpoint.url, "max_retries": 0})
        with closing(open_database(tmp_path, embedding=embedding)) as database:
            session = database.session()
            for side in ("left", "right"):
                session.update(
                    f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t"
                    f" FROM generate_series(0, {COUNT - 1})"
                )
            ran = ask(session, join("lefts", "rights", "x => a.t, y => b.t"))
            assert promise(ran)["proxy"] == "strategy 'embedding'"
            assert pairs(ran) <= SAME
            assert len(pairs(ran)) >= 0.85 * len(SAME)
