"""Embeddings at an endpoint with limits: few requests, and one error for the one text that fails."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.engines.embed import create_embedder
from flightllm.engines.embed.engine import EmbeddingEngine, vector_of
from flightllm.engines.embed.remote import embedding_engine
from flightllm.engines.embed.request_limits import RequestLimits
from flightllm.errors import CancelledError, EngineError, EngineUnavailableError
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
    with closing(embedding_engine(embedder, 256)) as engine:
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
        assert [one.error for one in run(engine, ["x" * 100] * 400)] == [None] * 400
        assert len(endpoint.bodies) <= 40 + 12  # the limit is found from below and above
        assert max(len(body["input"]) for body in endpoint.bodies[-9:]) == 10
        before = len(endpoint.bodies)
        assert [one.error for one in run(engine, ["xyz"] * 100)] == [None] * 100
        assert len(endpoint.bodies) == before + 1


@pytest.mark.parametrize(
    "message",
    [
        "Too many inputs. The max number of inputs is 48",
        "invalid request: total number of texts must be at most 48 - received {}",
        "The batch size limit is 48. Your batch size is {}.",
        "Batch size too large: {} inputs. Maximum: 48",
        "batch size {} > maximum allowed batch size 48",
        "BatchEmbedContentsRequest.requests: at most 48 requests can be in one batch",
        "'$.input' is invalid. The array length must be less than or equal to 48.",
        "input: List should have at most 48 items after validation, not {}",
    ],
)
def test_words_of_a_limit(message: str) -> None:
    """A limit that the refusal states holds from the next request on."""
    limits = RequestLimits(128)
    assert limits.read(f"400 {message.format(100)}", 100)
    assert limits.texts == limits.fitting(["text"] * 100, more=True) == 48


@pytest.mark.parametrize(
    "message",
    [
        "Too many tokens in batch. Max is 16384",
        "This model's maximum context length is 48 tokens",
        "The max allowed tokens per submitted batch is 48",
        "Each of the inputs must have at most 48 characters",
    ],
)
def test_words_of_other_limits(message: str) -> None:
    """A number of tokens or characters is no number of texts."""
    limits = RequestLimits(128)
    limits.read(f"400 {message}", 100)
    assert limits.texts == 128


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


FIRST: list[tuple[int, Body | bytes]] = [
    (200, {"error": {"message": "upstream failed", "code": 502}}),
    (200, {"error": {"message": "failed"}}),
    (200, {}),
    (200, {"data": None}),
    (200, b'{"data": [{"index": 0, "embedd'),
    (200, b""),
    *((status, {}) for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 529)),
]
"""The statuses and bodies of first answers."""


def test_first_answers_that_fail() -> None:
    """An answer that breaks off, or that is an error with the status of a success, is asked for again, whole."""
    failed = set[int]()

    def behave(_: str, body: Body, __: int) -> Reply:
        place = len(body["input"][0]) // 2 - 1
        if place in failed or place >= len(FIRST) or body["input"] == ["length"]:
            return vectors(body)
        failed.add(place)
        return *FIRST[place], {}  # type: ignore[return-value]

    with endpoint_of(behave) as endpoint, engine_at(endpoint, batch=2) as engine:
        found = run(engine, ["x" * place for place in range(2, 2 * len(FIRST) + 10)])
        assert [vector_of(one.text or "")[0] for one in found] == [*range(2, 2 * len(FIRST) + 10)]
        again = [len(body["input"]) for body in endpoint.bodies]
        assert again == [2] * (2 * len(FIRST) + 4)


@pytest.mark.parametrize(
    "data",
    [[], [{"index": 0, "embedding": [1.0, 1.0]}], [{"index": 0, "embedding": [1, 2]}] * 4, [{"embedding": [1, 2]}] * 4],
)
def test_vectors_that_belong_to_no_text(data: list[Body]) -> None:
    """If the vectors are too few, or their order is unknown, texts are asked in smaller requests from then on."""

    def behave(_: str, body: Body, __: int) -> Reply:
        return (200, {"data": data}, {}) if len(body["input"]) > 1 else vectors(body)

    with endpoint_of(behave) as endpoint, engine_at(endpoint, batch=4) as engine:
        found = run(engine, ["x" * place for place in range(1, 21)])
        assert [vector_of(one.text or "")[0] for one in found] == [*range(1, 21)]
        assert len(endpoint.bodies) == 20 + 2


@pytest.mark.parametrize("bad", [[float("nan"), 1.0], ["x", "y"], None, [], [1.0, 1.0, 1.0]])
def test_a_bad_vector(bad: object) -> None:
    """The text of a vector that cannot be read has its own error; no other text is sent again."""

    def behave(_: str, body: Body, __: int) -> Reply:
        status, reply, headers = vectors(body)
        for one, text in zip(reply["data"], body["input"], strict=True):
            one["embedding"] = bad if text == "bad" else one["embedding"]
        reply["data"].reverse()
        return status, reply, headers

    with endpoint_of(behave) as endpoint, engine_at(endpoint, max_retries=0) as engine:
        found = run(engine, ["fine", "bad", "x"])
        assert [one.id for one in found if one.error] == [1]
        assert [vector_of(found[place].text or "")[0] for place in (0, 2)] == [4, 1]
        assert sum(body["input"].count("fine") for body in endpoint.bodies) == 1


def test_each_try_counts() -> None:
    """A text that fails again and again is found with few requests, and each text that leaves is counted."""
    counted = Counter[int]()

    def requests() -> Iterator[Request]:
        for place in range(200):
            text = "bad" if place == 70 else "fine"
            request = Request(place, text, Parameters(), "embed", "document", (("text", text),))
            request.dispatch.admit = lambda _, place=place: counted.update([place])  # type: ignore[misc]
            yield request

    behave = lambda _, body, __: refuse(503) if "bad" in body["input"] else vectors(body)  # noqa: E731
    with endpoint_of(behave) as endpoint, engine_at(endpoint, max_retries=1) as engine:
        engine.patience = 300  # type: ignore[attr-defined]
        found = {one.id: one.error for one in engine.generate(requests(), lambda: False)}
        assert [place for place, error in found.items() if error] == [70]
        assert len(endpoint.bodies) <= 24
        assert sum(len(body["input"]) for body in endpoint.bodies) == counted.total()


def test_a_budget_ends_the_tries() -> None:
    """Texts that a budget does not allow to be sent again have an error that says so."""

    def requests() -> Iterator[Request]:
        for place in range(20):
            request = Request(place, "text", Parameters(), "embed", "document", (("text", "text"),))
            request.dispatch.admit = lambda _, sent=request.dispatch: (
                "the query's budget is spent" if sent.sent else None
            )  # type: ignore[misc]
            yield request

    with endpoint_of(lambda *_: refuse(503)) as endpoint, engine_at(endpoint) as engine:
        found = list(engine.generate(requests(), lambda: False))
        assert len(found) == 20
        assert all("HTTP 503" in (one.error or "") and "budget is spent" in (one.error or "") for one in found)
        assert len(endpoint.bodies) == 1


def test_a_cold_endpoint() -> None:
    """A query waits for an endpoint that is loading, and says for how long nothing succeeded if it stays so."""
    behave = lambda _, body, number: refuse(503, "loading") if number < 2 else vectors(body)  # noqa: E731
    with endpoint_of(behave) as endpoint, engine_at(endpoint, max_retries=0) as engine:
        engine.patience = 300  # type: ignore[attr-defined]
        assert [one.error for one in run(engine, ["text"] * 200)] == [None] * 200
    with endpoint_of(lambda *_: refuse(503, "loading")) as endpoint, engine_at(endpoint, max_retries=0) as engine:
        engine.patience = 1  # type: ignore[attr-defined]
        with pytest.raises(EngineUnavailableError, match=r"HTTP 503.: loading; nothing succeeded for"):
            run(engine, ["text"])


def test_a_cancelled_query_waits_no_longer() -> None:
    """A query that waits for an endpoint that is down can be cancelled, and another query then gets its vectors."""
    asked = threading.Event()
    ready = threading.Event()

    def behave(_: str, body: Body, __: int) -> Reply:
        asked.set()
        return vectors(body) if ready.is_set() else refuse(503, Retry_After="3000")

    with endpoint_of(behave) as endpoint, engine_at(endpoint) as engine:
        engine.patience = 9_000  # type: ignore[attr-defined]
        request = Request(0, "text", Parameters(), "embed", "document", (("text", "text"),))
        with pytest.raises(CancelledError):
            list(engine.generate(iter([request]), asked.is_set))
        ready.set()
        assert [one.error for one in run(engine, ["text"] * 3)] == [None] * 3


def test_a_short_query_beside_a_long_one() -> None:
    """Where a request takes one text, a second query's text is sent after a few of the first query's, not after all."""
    held, going = threading.Semaphore(0), threading.Event()

    def behave(_: str, body: Body, __: int) -> Reply:
        if len(body["input"]) > 1:
            return refuse(413, f"batch size {len(body['input'])} > maximum allowed batch size 1")
        if body["input"][0].startswith("long"):
            going.set()
            held.acquire(timeout=60)
        return vectors(body)

    with endpoint_of(behave) as endpoint, engine_at(endpoint) as engine:
        run(engine, ["text"] * 2)  # finds the limit
        long = threading.Thread(target=run, args=(engine, [f"long {number}" for number in range(200)]))
        short = threading.Thread(target=run, args=(engine, ["short"]))
        long.start()
        going.wait(60)
        short.start()
        while short.is_alive():
            held.release()
            short.join(0.005)
        before = [body["input"][0] for body in endpoint.bodies if body["input"][0].startswith("long")]
        held.release(200)
        long.join(60)
        assert len(before) <= 100
