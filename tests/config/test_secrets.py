"""Secrets are named, never given."""

from pathlib import Path

import pytest

from flightllm.common.redaction import redacted
from flightllm.config.secrets import check_reference, checked_secret, keep_pasted, read_secret
from flightllm.errors import ConfigError


def test_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is read from the environment or a file, without the white space around it."""
    monkeypatch.setenv("MY_KEY", "one-key\n")
    (tmp_path / "key").write_text("two-keys\n")
    assert [read_secret("api_key", r) for r in ("env:MY_KEY", f"file:{tmp_path / 'key'}")] == ["one-key", "two-keys"]


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


@pytest.mark.parametrize(
    ("pasted", "found"),
    [
        ("”", "curly quote"),
        ("“", "curly quote"),
        ("\ufeff", "byte order mark"),
        ("\u200b", "zero-width"),
        ("\u00a0", "non-breaking space"),
        ("\n", "line break"),
        ("\0", "U\\+0000"),
        ("\udcff", "U\\+DCFF"),
        ("é", "U\\+00E9"),
    ],
)
def test_a_pasted_character_is_named(pasted: str, found: str) -> None:
    """A key that no HTTP header can carry is refused where it is read, by an error without the key."""
    with pytest.raises(ConfigError, match=f"^the key: character 9 of the value is .*{found}") as caught:
        checked_secret("the key", f"hidden-k{pasted}ey-of-us")
    assert "hidden" not in str(caught.value)
    assert "of-us" not in str(caught.value)


def test_the_last_line_break_of_a_file_is_no_part_of_the_secret(tmp_path: Path) -> None:
    """An editor ends a file with a line break; one within the secret is an error."""
    (tmp_path / "key").write_bytes(b"sk-one-line\r\n")
    assert read_secret("k", f"file:{tmp_path / 'key'}") == "sk-one-line"
    (tmp_path / "key").write_bytes(b"sk-two\nlines\n")
    with pytest.raises(ConfigError, match=r"^k: character 7 of the file is a line break"):
        read_secret("k", f"file:{tmp_path / 'key'}")


@pytest.mark.parametrize("key", ["[engine] api_key", "[server] token", "[storage.object_stores] secret_access_key"])
def test_a_short_secret_is_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that no text can be searched for is refused; words for no key, and short values of other options, stay."""
    monkeypatch.setenv("SHORT", "k-9q")
    with pytest.raises(ConfigError, match="variable SHORT has 4 characters, and a secret needs 6") as one:
        read_secret(key, "env:SHORT")
    assert "k-9q" not in str(one.value)
    assert read_secret("[engine] headers.X-Region", "env:SHORT") == "k-9q"
    monkeypatch.setenv("SHORT", "EMPTY")
    assert read_secret(key, "env:SHORT") == "EMPTY"


@pytest.mark.parametrize(
    "name",
    [
        "hf-internal-testing/tiny-random-LlamaForCausalLM",
        "xai-org/grok-2-instruct",
        "sk-community/pk-classifier-base",
        "Qwen/Qwen2.5-7B-Instruct",
        "meta-llama/Llama-3.1-8B-Instruct",
    ],
)
def test_names_of_models_are_no_secrets(name: str) -> None:
    """A model whose name begins as keys of some services do stays readable in logs and system tables."""
    keep_pasted({"model": name})
    assert redacted(f"the model {name} is not there") == f"the model {name} is not there"


@pytest.mark.parametrize("key", ["sk-proj-4f9a8b7c6d5e4f3a", "hf_AbCdEfGhIjKlMn1234", "xai-9f8e7d6c5b4a39281706"])
def test_a_pasted_key_is_hidden(key: str) -> None:
    """A key at a wrong place is in no text from then on."""
    keep_pasted({"provider": [key]})
    assert key not in redacted(f"the option provider cannot be {key}")
