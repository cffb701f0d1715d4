"""Secrets are named, never given."""

from pathlib import Path

import pytest

from flightllm.config.secrets import check_reference, read_secret
from flightllm.errors import ConfigError


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


@pytest.mark.parametrize("reference", ["sk-1", "env:", "file:", "s3:key", ""])
def test_not_a_reference(reference: str) -> None:
    """A secret itself, or a reference to nothing, is refused when the configuration is read, without showing it."""
    check_reference("[server] token", None)
    check_reference("[server] token", "env:NAME")
    with pytest.raises(ConfigError, match=r"\[server\] token: write env:NAME or file:PATH") as caught:
        check_reference("[server] token", reference)
    assert "sk-1" not in str(caught.value)
