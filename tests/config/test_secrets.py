"""Secrets are named, never given."""

from pathlib import Path

import pytest

from flightllm.common import redaction
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


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_SECRETS", redaction._Secrets())


MODELS = (
    "hf-internal-testing/tiny-random-LlamaForCausalLM",
    "hf-internal-testing/tiny-random-gpt2",
    "hf_mirror/Llama-3.1-8B-Instruct",
    "xai-org/grok-2-instruct",
    "xai-org/grok-1",
    "sk-community/pk-classifier-base",
    "pplx-70b-chat-alpha",
    "sk-ai/Phi-3-mini-4k-instruct",
    "pk-lab/multilingual-e5-large",
    "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int4",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "gpt-4o-mini-2024-07-18",
    "claude-sonnet-4-20250514",
    "sentence-transformers/all-MiniLM-L6-v2",
    "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF",
)


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("key", ["model", "tokenizer", "draft_model"])
def test_names_of_models_stay(key: str, name: str) -> None:
    """The name of a model stays in texts, although some names begin as keys do."""
    keep_pasted({"engine": {key: name}, "cluster": {"models": [name]}})
    assert redacted(f"no model {name}") == f"no model {name}"


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(
    "word",
    [
        "hf-internal-testing/tiny-random-LlamaForCausalLM",
        "/data/hf_datasets_of_2024/tickets.csv",
        "xai-org/grok-two-instruct",
        "/data/sk-learn-tutorials/iris.csv",
    ],
)
def test_ordinary_words_are_no_keys(word: str) -> None:
    """Words that only begin as keys do stay at any place of the configuration."""
    keep_pasted({"tables": {"t": word}})
    assert redacted(word) == word


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("option", ["model", "tokenizer", "max_in_flight", "unknown"])
@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-4711abcdefghijklmnop",
        "sk-ant-api03-R4nDoMabcdefghijklm",
        "hf_AbCdEfGh1jKlMnOpQrStUv",
        "xai-AbCdEfGh1jKlMnOpQrStUv",
        "gsk_AbCdEfGh1jKlMnOpQrStUv",
        "pplx-abcdef0123456789abcdef",
        "sk-Odd4711/with+signs=",
    ],
)
def test_a_key_at_a_wrong_place_is_hidden(option: str, key: str) -> None:
    """A pasted key is hidden at any place of the configuration, that of a model's name among them."""
    keep_pasted({"engine": {option: f"{key}"}})
    assert redacted(f"got {key}") == "got ***"
