"""Embedders: vectors that mean something, deterministic, whatever is embedded beside them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from flightllm.config import EmbeddingConfig
from flightllm.errors import ConfigError
from flightllm.llm.embed import Embedder, create_embedder
from flightllm.llm.embed.models import MINILM, embedding_folder
from tests.llm.conftest import need_vllm, serving

TEXTS = ["A cat sat on the mat.", "A kitten was sitting on the rug.", "The stock market fell sharply today."]


VLLM = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(
    scope="module",
    params=["fake", "local", pytest.param("vllm", marks=VLLM), pytest.param("openai", marks=VLLM)],
)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    """Return each embedder, the last one at vLLM's own server; but for the fake, all with the same model."""
    with ExitStack() as opened:
        config = EmbeddingConfig(request.param)
        if request.param != "fake":
            pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
        if request.param in {"vllm", "openai"}:
            need_vllm()
        if request.param == "openai":
            log = tmp_path_factory.mktemp("embeddings") / "log"
            url = opened.enter_context(serving(embedding_folder(MINILM), log, "--runner", "pooling"))
            config = replace(config, model="demo", options={"base_url": url, "batch": 2})
        made = create_embedder(config)
        opened.callback(made.close)
        yield made


def test_near_in_meaning_near_in_space(embedder: Embedder) -> None:
    """Texts alike are nearer than others; vectors have length one."""
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (3, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1


def test_batches_change_nothing(embedder: Embedder) -> None:
    """A text has the same vector alone, among others and again."""
    texts = [*TEXTS, "", "word " * 2_000, "naïve 東京 🎬"]
    together = embedder.embed(texts)
    assert np.isfinite(together).all()
    assert np.allclose(np.concatenate([embedder.embed([text]) for text in texts]), together, atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_tokens_and_names(embedder: Embedder) -> None:
    """Texts have tokens; name and revision tell embedders apart."""
    assert embedder.count_tokens(TEXTS[0]) >= 6
    assert embedder.name
    assert embedder.revision


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (EmbeddingConfig("local", "no/such/folder"), r"\[embedding\] model: no folder .* 'minilm'"),
        (EmbeddingConfig("fake", "x", 1, {"dimension": 3}), r"\[embedding\] dimension: unknown option"),
        (EmbeddingConfig("fake", "x", 1, {"dimensions": 0}), r"\[embedding\] dimensions: must be"),
    ],
)
def test_bad_configuration(config: EmbeddingConfig, said: str) -> None:
    """The section and key are named, and what to write instead."""
    if config.kind == "local":
        pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
    with pytest.raises(ConfigError, match=said):
        create_embedder(config)
