"""The statement that makes a model of a name runs as it stands."""

import re
from pathlib import Path

import pytest

from flightllm.catalog.model_advice import creation, creation_advice
from flightllm.config import Config
from flightllm.errors import AICallError
from tests.databases import ask, small_database

NAMES = ["gpt-4o", "openai-gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-flash", "mistral-large2", "deepseek-r1"]
OPEN = ["llama3.1-70b", "databricks-meta-llama-3-3-70b-instruct", "Qwen/Qwen3-8B", "qwen3:8b", "snowflake-arctic"]


@pytest.mark.parametrize("name", [*NAMES, *OPEN])
def test_runs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error about an unknown model names the statement, which then makes it; no usage hides it."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    for key in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "DEEPSEEK"):
        monkeypatch.setenv(f"{key}_API_KEY", "sk-secret")
    database = small_database(tmp_path)
    session = database.session()
    with pytest.raises(AICallError) as error:
        ask(session, f"SELECT ai_complete('{name}', note) FROM people")
    line = re.search(r"an admin writes (CREATE MODEL .*\)); to use", str(error.value))
    assert line is not None
    assert "Usage" not in str(error.value)
    session.update(line[1])
    assert name in [row["name"] for row in ask(session, "SHOW MODELS").rows]
    database.close()


def test_alias_is_toml(tmp_path: Path) -> None:
    """The line for the configuration can be pasted there, and spells each name as the user wrote it."""
    for name in ("gpt-4o", 'a"b\\c'):
        line = re.search(r"write (aliases = .*) in \[models\]", creation_advice(name))
        assert line is not None
        (tmp_path / "c.toml").write_text(f"[models]\n{line[1]}\n", encoding="utf-8")
        assert Config.load(tmp_path / "c.toml").models.aliases == {name: "default"}


def test_provider() -> None:
    """A hosted model is made at its provider, any other at a server of open models."""
    assert creation("openai-gpt-4.1").endswith("(engine 'openai', model 'gpt-4.1', provider 'openai')")
    assert "base_url" in creation("llama3.1-70b")
