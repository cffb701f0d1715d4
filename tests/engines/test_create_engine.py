"""Making engines by name, and finding models."""

import sys
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.files import model_digest, model_folder


def test_fake_by_name() -> None:
    """The kind names the engine's module."""
    engine = create_engine(EngineConfig("fake", "demo", 4, {}))
    assert engine.name == "fake (demo)"
    engine.close()


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose package is not installed names the extra to install."""
    for name in ("create", "engine"):
        monkeypatch.delitem(sys.modules, f"flightllm.engines.openai.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"flightllm\[openai\]"):
        create_engine(EngineConfig("openai", "any", 4, {}))


def test_model_must_be_a_model(tmp_path: Path) -> None:
    """A folder that holds no model is refused."""
    with pytest.raises(ConfigError, match=r"no config\.json"):
        model_folder(str(tmp_path))


@pytest.mark.parametrize("kind", ["local", "vllm"])
def test_revision_of_a_folder(kind: str) -> None:
    """Only a model of the hub has revisions."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    with pytest.raises(ConfigError, match=r"\[engine\] revision: only hub models have revisions; 'demo' is"):
        check_engine(EngineConfig(kind, options={"revision": "v1"}))


def test_hub_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that cannot be got is named with its revision, by a hub that nobody listens for."""
    constants = pytest.importorskip("huggingface_hub", reason="the extra 'local' is not installed").constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"\[engine\] model: cannot get 'a/b' at revision 'v1' from the hub"):
        model_folder("a/b", revision="v1")


def test_digest_follows_the_files(tmp_path: Path) -> None:
    """Changing a weight or the configuration changes the digest; other files do not."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * (3 << 20))
    seen = {model_digest(tmp_path)}
    (tmp_path / "README.md").write_text("notes")
    assert model_digest(tmp_path) in seen
    (tmp_path / "model.safetensors").write_bytes(b"\0" * ((3 << 20) - 1) + b"\1")
    seen.add(model_digest(tmp_path))
    middle = bytes([*bytes(100), 1, *bytes(100)]) * 100
    (tmp_path / "model.safetensors").write_bytes(b"\0" * (1500 << 10) + middle + b"\0" * ((1572 << 10) - len(middle)))
    seen.add(model_digest(tmp_path))
    (tmp_path / "config.json").write_text('{"a": 1}')
    seen.add(model_digest(tmp_path))
    assert len(seen) == 4
