"""The number type follows the processor for `auto` alone, and never takes more memory than is free."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers", reason="the extra 'local' is not installed")


def number_type(folder: Path, device: str, dtype: str) -> str:
    """Return the type for a folder and a device."""
    from flightllm.engines.local import number_type as tested

    return tested.number_type(folder, torch.device(device), dtype)


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
    assert number_type(folder, "cpu", "auto") == expected
    assert number_type(folder, "cuda", "auto") == "auto"
    assert number_type(folder, "cpu", "bfloat16") == "bfloat16"


def test_other_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 model keeps its type, and so does a model whose weights in float32 would fill the memory."""
    processor(monkeypatch, architecture="x86_64", avx512_bf16=False, amx_bf16=False)
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(1 << 40)  # no machine has the memory; the file takes no room on the disk
    assert number_type(folder, "cpu", "auto") == "auto"
    (folder / "config.json").write_text('{"model_type": "llama", "dtype": "float32"}', encoding="utf-8")
    assert number_type(folder, "cpu", "auto") == "auto"
