"""Secrets are named, never given, and never shown."""

from pathlib import Path

import pytest

from flightllm.errors import ConfigError
from flightllm.llm.secrets import holds_secret, read_secret, shown_options


@pytest.mark.parametrize(
    ("option", "value", "holds"),
    [
        ("api_key", "sk-1", True),
        ("api_key", "env:", True),
        ("api_key", 1234, True),
        ("hf_token", "x", True),
        ("client_secret", "x", True),
        ("password", "x", True),
        ("authorization", "Bearer x", True),
        ("base_url", "https://me:pass@host/v1", True),
        ("base_url", "https://host/v1?api-key=x", True),
        ("api_key", "env:NAME", False),
        ("api_key", "file:/run/key", False),
        ("base_url", "https://host/v1?api-version=1", False),
        ("base_url", "http://[half", False),
        ("tokens_per_minute", 5, False),
        ("model", "gpt", False),
    ],
)
def test_holds_secret(option: str, value: object, holds: bool) -> None:
    """Options for secrets take references alone, and addresses have no secrets in them."""
    assert holds_secret(option, value) is holds


def test_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is read from the environment or a file, without the white space around it."""
    monkeypatch.setenv("MY_KEY", "one\n")
    (tmp_path / "key").write_text("two\n")
    assert [read_secret("api_key", r) for r in ("env:MY_KEY", f"file:{tmp_path / 'key'}")] == ["one", "two"]


def test_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing or empty is said, without the path or the secret."""
    monkeypatch.setenv("MY_KEY", " ")
    (tmp_path / "empty").write_text("")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    wrong = ("env:MY_KEY", "env:NOT_THERE", "sk-1", *(f"file:{tmp_path / n}" for n in ("empty", "binary", "none")))
    for reference in wrong:
        with pytest.raises(ConfigError) as caught:
            read_secret("api_key", reference)
        assert "api_key" in str(caught.value)
        assert str(tmp_path) not in str(caught.value)
        assert "sk-1" not in str(caught.value)


def test_shown() -> None:
    """Of secrets only where they come from is shown, at any depth."""
    options = {
        "api_key": "env:NAME",
        "api_key_file": "/run/key",
        "timeout": 3,
        "base_url": "http://a:b@h",
        "engine_args": {"hf_token": "x", "seed": 1},
    }
    assert shown_options(options) == {
        "api_key": "env:…",
        "api_key_file": "hidden",
        "timeout": 3,
        "base_url": "hidden",
        "engine_args": {"hf_token": "hidden", "seed": 1},
    }
