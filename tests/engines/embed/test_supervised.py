"""Embeddings of an endpoint that dies and comes back."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from flightllm.config import EmbeddingConfig, RecoveryConfig
from flightllm.engines.embed.engine import vector_of
from flightllm.engines.embed.supervised import SupervisedEmbedder
from flightllm.errors import EngineUnavailableError
from flightllm.llm.engine import Parameters, Request
from tests.endpoint_process import EndpointProcess
from tests.servers import await_true


@pytest.fixture
def endpoint() -> Iterator[EndpointProcess]:
    """Run an endpoint."""
    with EndpointProcess() as endpoint:
        yield endpoint


@pytest.fixture
def embedder(endpoint: EndpointProcess) -> Iterator[SupervisedEmbedder]:
    """Return what asks the endpoint, as the server does."""
    options = {"base_url": endpoint.url, "api_key_env": "", "max_retries": 0}
    embedder = SupervisedEmbedder(EmbeddingConfig("openai", "m", 8, options), RecoveryConfig(engine_wait_seconds=60))
    yield embedder
    embedder.close()


@pytest.mark.slow
def test_queries_wait(endpoint: EndpointProcess, embedder: SupervisedEmbedder) -> None:
    """One that meets the death goes on when the endpoint is back: each text is embedded once."""

    def requests() -> Iterator[Request]:
        for number in range(60):
            if number == 30:
                endpoint.stop()
                threading.Timer(1.0, endpoint.start).start()
            yield Request(number, "", Parameters(), "ai_embed", "document", (("text", "x" * number),))

    answers = list(embedder.engine.generate(requests(), lambda: False))
    assert sorted(answer.id for answer in answers) == list(range(60))
    assert all(vector_of(answer.text or "")[0] == max(1, answer.id) for answer in answers)


def test_searches_fail_at_once(endpoint: EndpointProcess, embedder: SupervisedEmbedder) -> None:
    """They say so while the endpoint is gone, and work again once it is back."""
    assert np.array_equal(embedder.embed(["ab", "a"]), [[2, 1], [1, 1]])
    endpoint.stop()
    for _ in range(2):
        with pytest.raises(EngineUnavailableError, match="embedding engine openai"):
            embedder.embed(["ab"])
    endpoint.start()

    def works() -> bool:
        try:
            return len(embedder.embed(["ab"])) == 1
        except EngineUnavailableError:
            return False

    await_true(works)


def test_one_that_never_answered(embedder: SupervisedEmbedder, endpoint: EndpointProcess) -> None:
    """Who configured an address where nothing is gets the error at once."""
    endpoint.stop()
    request = Request(1, "", Parameters(), "ai_embed", "document", (("text", "x"),))
    with pytest.raises(
        EngineUnavailableError, match=r"no server listens at this address.*the line to change is \[embedding\] base_url"
    ):
        list(embedder.engine.generate(iter([request]), lambda: False))
