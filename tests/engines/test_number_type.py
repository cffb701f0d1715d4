"""The number type follows the processor for `auto` alone, and never takes more memory than is free."""

import json
from pathlib import Path

import pytest

from flightllm.engines.number_type import number_type

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a bfloat16 model with small weights."""
    config = {"model_type": "llama", "dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def processor(monkeypatch: pytest.MonkeyPatch, **found: object) -> None:
    """Let PyTorch report a processor."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, "float32"),
        ({"architecture": "x86_64", "avx512_bf16": True, "amx_bf16": False}, "auto"),
        ({"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": True}, "auto"),
        ({"architecture": "aarch64"}, "auto"),
        ({}, "auto"),
    ],
)
def test_auto(folder: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, object], expected: str) -> None:
    """A processor without instructions for bfloat16 gets float32; nothing else changes the model's own type."""
    processor(monkeypatch, **found)
    assert number_type(folder, "auto", on_cpu=True) == expected
    assert number_type(folder, "auto", on_cpu=False) == "auto"
    assert number_type(folder, "bfloat16", on_cpu=True) == "bfloat16"


def test_other_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 model keeps its type, and so does a model whose weights in float32 would fill the memory."""
    processor(monkeypatch, architecture="x86_64", avx512_bf16=False, amx_bf16=False)
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(1 << 40)  # no machine has the memory; the file takes no room on the disk
    assert number_type(folder, "auto", on_cpu=True) == "auto"
    (folder / "config.json").write_text('{"model_type": "llama", "dtype": "float32"}', encoding="utf-8")
    assert number_type(folder, "auto", on_cpu=True) == "auto"


def test_quantized_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantized weights and those of other files keep their type."""
    processor(monkeypatch, architecture="x86_64", avx512_bf16=False, amx_bf16=False)
    config = {"model_type": "llama", "dtype": "bfloat16", "quantization_config": {"quant_method": "awq", "bits": 4}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert number_type(folder, "auto", on_cpu=True) == "auto"
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").rename(folder / "model.gguf")
    assert number_type(folder, "auto", on_cpu=True) == "auto"


@pytest.mark.parametrize("text", ['{"text_config": {"torch_dtype": "bfloat16"}}', '{"torch_dtype": "bfloat16"}'])
def test_places_of_the_type(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Older files, and those of models that see pictures, name the type elsewhere; a broken file changes nothing."""
    processor(monkeypatch, architecture="x86_64", avx512_bf16=False, amx_bf16=False)
    (folder / "config.json").write_text(text, encoding="utf-8")
    assert number_type(folder, "auto", on_cpu=True) == "float32"
    (folder / "config.json").write_text(text[:-1], encoding="utf-8")
    assert number_type(folder, "auto", on_cpu=True) == "auto"
