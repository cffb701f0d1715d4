"""Embedders: vectors that mean something, deterministic, whatever is embedded beside them."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from flightllm.config import EmbeddingConfig
from flightllm.engines.embed import Embedder, create_embedder
from flightllm.engines.embed.models import MINILM, embedding_folder
from flightllm.errors import ConfigError, EngineError
from tests.engines.conftest import need_vllm, serving

TEXTS = ["A cat sat on the mat.", "A kitten was sitting on the rug.", "The stock market fell sharply today."]


CUT = {"truncate_prompt_tokens": -1}
POOLING = ("--runner", "pooling", "--gpu-memory-utilization", "0.1")
VLLM = [pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def embeddings_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the base URL of vLLM's own server, with the default embedding model as `demo`."""
    need_vllm()
    pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
    with serving(embedding_folder(MINILM), tmp_path_factory.mktemp("embeddings") / "log", *POOLING) as url:
        yield url


@pytest.fixture(
    scope="module",
    params=["fake", "local", pytest.param("vllm", marks=VLLM), pytest.param("openai", marks=VLLM)],
)
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    """Return each embedder; but for the fake, all with the same model."""
    config = EmbeddingConfig(request.param)
    if request.param != "fake":
        pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
    if request.param == "vllm":
        need_vllm()
    if request.param == "openai":
        options = {"base_url": request.getfixturevalue("embeddings_url"), "batch": 2, "extra_body": CUT}
        config = EmbeddingConfig("openai", "demo", options=options)
    made = create_embedder(config)
    yield made
    made.close()


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
        (EmbeddingConfig("fake", "x", 1, {"dimensions": 0}), r"\[embedding\] dimensions: expected at least 1"),
    ],
)
def test_bad_configuration(config: EmbeddingConfig, said: str) -> None:
    """The section and key are named, and what to write instead."""
    if config.kind == "local":
        pytest.importorskip("sentence_transformers", reason="the extra 'vector' is not installed")
    with pytest.raises(ConfigError, match=said):
        create_embedder(config)


@pytest.mark.vllm
@pytest.mark.slow
def test_text_too_long(embeddings_url: str) -> None:
    """An endpoint's refusal says how to cut texts, and that works."""
    options = {"base_url": embeddings_url}
    whole = create_embedder(EmbeddingConfig("openai", "demo", options=options))
    with closing(whole), pytest.raises(EngineError, match=r"maximum context length is 256.*max_chars"):
        whole.embed(["word " * 2_000])
    with closing(create_embedder(EmbeddingConfig("openai", "demo", options={**options, "max_chars": 500}))) as cut:
        assert np.array_equal(cut.embed(["word " * 2_000]), cut.embed(["word " * 100]))
