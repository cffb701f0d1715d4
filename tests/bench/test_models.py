"""Models for measurements: a folder an engine can load, built once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.models import CPU, GPU, cache_folder, model

pytest.importorskip("torch")


def test_a_model_is_built_once(tmp_path: Path) -> None:
    """The second call finds the first one's folder, with the shape asked for and the embedded tokenizer."""
    shape = replace(CPU, layers=1)
    folder = model(shape, tmp_path)
    built = (folder / "model.safetensors").stat().st_mtime_ns
    assert model(shape, tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == built
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["num_hidden_layers"], config["hidden_size"], config["head_dim"]) == (1, 512, 64)
    assert (folder / "tokenizer.json").is_file()


def test_weights_may_be_left_to_the_engine(tmp_path: Path) -> None:
    """The shape for a GPU has no weights on disk, but all that vLLM needs to make some up."""
    folder = model(GPU, tmp_path)
    assert not list(folder.glob("*.safetensors"))
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"] == ["LlamaForCausalLM"]


def test_bytes_of_the_kv_cache() -> None:
    """Keys and values of every layer and head, two bytes each."""
    assert CPU.kv_bytes(1) == 2 * 8 * 4 * 64 * 2


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`FLIGHTLLM_HOME` says where models are kept; the user's cache folder otherwise."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "models"
    monkeypatch.delenv("FLIGHTLLM_HOME")
    assert cache_folder().name == "models"
