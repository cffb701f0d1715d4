"""The embedded model: complete, the same every time, and built once."""

import threading
from pathlib import Path

import pytest

from flightllm.demo.model import CONTEXT_TOKENS, VOCABULARY, cache_folder, corpus, demo_model

transformers = pytest.importorskip("transformers", reason="the extra 'local' is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a built model."""
    return demo_model(tmp_path_factory.mktemp("model"))


def test_it_loads_as_any_model_does(folder: Path) -> None:
    """Transformers' Auto classes read it: about five million parameters, its context and its vocabulary."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert 4_000_000 < model.num_parameters() < 6_000_000
    assert model.config.max_position_embeddings == CONTEXT_TOKENS
    assert len(tokenizer) == VOCABULARY
    assert (folder / "model.safetensors").is_file()


def test_tokenizer_knows_the_sample_data(folder: Path) -> None:
    """Any text survives a round trip, and text like the sample tables' takes fewer than half as many tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = corpus()[0]
    for one in (text, "Grüße, 映画 🎬\n\ttabs"):
        assert tokenizer.decode(tokenizer.encode(one, add_special_tokens=False)) == one
    assert len(tokenizer.encode(text)) < len(text) / 2


def test_chat_template(folder: Path) -> None:
    """A user message is framed by special tokens, and the assistant's turn is opened."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "Hello"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|begin|><|user|>\nHello<|end|>\n<|assistant|>\n"
    assert tokenizer.encode(text, add_special_tokens=False)[0] == tokenizer.bos_token_id


def test_built_once_and_always_the_same(folder: Path, tmp_path: Path) -> None:
    """A second call finds the folder as it is; a build elsewhere has the same bytes; another seed another name."""
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert demo_model(folder.parent) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps
    again = demo_model(tmp_path)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    assert demo_model(tmp_path, seed=1).name != folder.name


def test_builders_at_once(tmp_path: Path) -> None:
    """Two builders in one folder end with one model and nothing left over."""
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(demo_model(tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert [path.name for path in tmp_path.iterdir()] == [found[0].name]


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`FLIGHTLLM_HOME` says where models are kept; the user's cache folder otherwise."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "models"
    monkeypatch.delenv("FLIGHTLLM_HOME")
    assert cache_folder().name == "models"
