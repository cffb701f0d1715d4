"""Embeddings at an endpoint with limits: few requests, and one error for the one text that fails."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.engines.embed import create_embedder
from flightllm.engines.embed.engine import EmbeddingEngine
from flightllm.errors import EngineError
from flightllm.llm.engine import Completion, Parameters, Request
from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")


def vectors(body: Body) -> Reply:
    """Answer each text by a vector that starts with the text's length."""
    data = [{"index": place, "embedding": [len(text), 1.0]} for place, text in enumerate(body["input"])]
    return 200, {"object": "list", "model": "m", "data": data}, {}


@contextmanager
def engine_at(endpoint: Endpoint, **options: object) -> Iterator[EmbeddingEngine]:
    """Return an engine at a stand-in."""
    embedder = create_embedder(EmbeddingConfig("openai", "m", options={"base_url": endpoint.url, **options}))
    with closing(EmbeddingEngine(embedder, 256)) as engine:
        yield engine


def run(engine: EmbeddingEngine, texts: list[str]) -> list[Completion]:
    """Embed texts as a query does, and return the completions in their order."""
    asked = (
        Request(place, text, Parameters(), "embed", "document", (("text", text),)) for place, text in enumerate(texts)
    )
    return sorted(engine.generate(asked, lambda: False), key=lambda one: one.id)


@pytest.mark.parametrize(
    ("status", "message", "most"),
    [
        (413, "batch size {} > maximum allowed batch size 32", 40),
        (400, "too many inputs", 46),
        (422, "no", 46),
        (500, "batch size {} > maximum allowed batch size 32", 40),
        (500, "input is too large to process", 46),
    ],
)
def test_texts_per_request(status: int, message: str, most: int) -> None:
    """The endpoint's limit is found at once or by halving, and is remembered."""

    def behave(_: str, body: Body, __: int) -> Reply:
        count = len(body["input"])
        return refuse(status, message.format(count)) if count > 32 else vectors(body)

    with endpoint_of(behave) as endpoint, engine_at(endpoint) as engine:
        assert [one.error for one in run(engine, ["text"] * 1_000)] == [None] * 1_000
        assert len(endpoint.bodies) <= most


def test_tokens_per_request() -> None:
    """A limit of tokens is remembered as such: short texts still share a request."""

    def behave(_: str, body: Body, __: int) -> Reply:
        size = sum(map(len, body["input"]))
        return refuse(400, "maximum request size is 250 tokens per request") if size > 1_000 else vectors(body)

    with endpoint_of(behave) as endpoint, engine_at(endpoint) as engine:
        assert [one.error for one in run(engine, ["x" * 100] * 100)] == [None] * 100
        assert len(endpoint.bodies) <= 24
        before = len(endpoint.bodies)
        assert [one.error for one in run(engine, ["xyz"] * 100)] == [None] * 100
        assert len(endpoint.bodies) == before + 1


@pytest.mark.parametrize(
    ("status", "message", "count"), [(500, "input is too large to process", 100), (422, "no", 100), (503, "died", 4)]
)
def test_one_text_fails(status: int, message: str, count: int) -> None:
    """The one text that fails has its own error; all others have vectors."""
    behave = lambda _, body, __: refuse(status, message) if "bad" in body["input"] else vectors(body)  # noqa: E731
    with endpoint_of(behave) as endpoint, engine_at(endpoint, max_retries=0) as engine:
        texts = ["fine"] * (count - 1)
        texts.insert(2, "bad")
        found = run(engine, texts)
        assert [one.id for one in found if one.error] == [2]
        assert message in (found[2].error or "")
        assert len(endpoint.bodies) <= 20


def test_failures_of_a_moment() -> None:
    """HTTP 429 and 503 cost no text its vector."""
    behave = lambda _, body, number: refuse((429, 503)[number]) if number < 2 else vectors(body)  # noqa: E731
    with endpoint_of(behave) as endpoint, engine_at(endpoint) as engine:
        assert [one.error for one in run(engine, ["text"] * 20)] == [None] * 20
        assert len(endpoint.bodies) == 3


def test_everything_fails() -> None:
    """An endpoint that has never accepted a text is not asked about each text; a wrong key ends the query."""
    with endpoint_of(lambda *_: refuse(422)) as endpoint, engine_at(endpoint, max_retries=0) as engine:
        assert all("rejected the request" in (one.error or "") for one in run(engine, ["text"] * 100))
        assert len(endpoint.bodies) <= 10
    with endpoint_of(lambda *_: refuse(401)) as endpoint, engine_at(endpoint) as engine:
        with pytest.raises(EngineError, match=r"rejects the API key.*\[embedding\] api_key"):
            run(engine, ["text"])
        assert len(endpoint.bodies) == 1


def test_vectors_of_another_length() -> None:
    """A vector of another length is the error of its text alone."""

    def behave(_: str, body: Body, __: int) -> Reply:
        status, reply, headers = vectors(body)
        if body["input"] == ["odd"]:
            reply["data"][0]["embedding"] = [1.0]
        return status, reply, headers

    with endpoint_of(behave) as endpoint, engine_at(endpoint, batch=1) as engine:
        assert [one.id for one in run(engine, ["a", "odd", "b"]) if one.error] == [1]
