"""The command that fetches SmolLM2 says what it needs, and keeps what is there."""

from pathlib import Path

import pytest

from tests.real_models import convert, main, smollm2


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the folder the command ends with what to write."""
    monkeypatch.delenv("FLIGHTLLM_TEST_MODELS", raising=False)
    with pytest.raises(SystemExit):
        main(["--folder"])
    assert "write FLIGHTLLM_TEST_MODELS=FOLDER before the command" in capsys.readouterr().err


def test_what_is_there_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file and its folder are neither fetched nor converted again; the command prints the folder."""
    (tmp_path / "smollm2").mkdir()
    for name in ("smollm2.gguf", "smollm2/config.json"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    monkeypatch.setenv("FLIGHTLLM_TEST_MODELS", str(tmp_path))
    main(["--folder"])
    assert capsys.readouterr().out == f"{tmp_path / 'smollm2'}\n"


@pytest.mark.slow
def test_the_folder_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The converted folder has a configuration, weights and a tokenizer."""
    pytest.importorskip("gguf")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    file = tmp_path / "smollm2.gguf"
    file.symlink_to(smollm2())
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {one.name for one in convert(file).iterdir()}
