"""The demo model as it is shipped: complete, small, and read like any model."""

from pathlib import Path

import pytest

from flightllm.common.package_data import demo_model

transformers = pytest.importorskip("transformers", reason="the extra 'local' is not installed")


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the shipped folder."""
    return demo_model()


def test_it_loads_as_any_model_does(folder: Path) -> None:
    """Transformers' Auto classes read it: 5 to 12 million parameters, its context and its vocabulary."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert 5_000_000 < model.num_parameters() < 12_000_000
    assert model.config.max_position_embeddings == 2048
    assert len(tokenizer) == model.config.vocab_size


def test_weights_fit_a_wheel(folder: Path) -> None:
    """All files together take at most 24 MiB, the weights as bf16 safetensors."""
    safetensors = pytest.importorskip("safetensors")
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 24 << 20
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118 -- no mapping


def test_text_survives_the_tokenizer(folder: Path) -> None:
    """Any text survives a round trip, and plain English takes fewer than half as many tokens as characters."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "The acting is superb, but the story of Anna Keller lost me after 40 minutes."
    for one in (text, "Grüße, 映画 🎬\n\ttabs"):
        assert tokenizer.decode(tokenizer.encode(one, add_special_tokens=False)) == one
    assert len(tokenizer.encode(text)) < len(text) / 2


def test_words_and_numbers_are_the_same_tokens_anywhere(folder: Path) -> None:
    """A word in a sentence, a list, JSON and as an answer is one run of tokens: copying it is copying tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def tokens(text: str) -> str:
        return " ".join(map(str, tokenizer.encode(text, add_special_tokens=False)))

    for value in ("Brisbane", "Okonjo Delacroix", "F-48213", "lighthouse keeping", "shipping"):
        for text in (f"He said {value} twice.", f"one of: taxes, {value}, other", f'{{"city":"{value}"}}', value):
            assert f" {tokens(value)} " in f" {tokens(text)} "


def test_chat_template(folder: Path) -> None:
    """A user message is framed by special tokens, and the assistant's turn is opened."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "Hello"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|begin|><|user|>\nHello<|end|>\n<|assistant|>\n"
    assert tokenizer.encode(text, add_special_tokens=False)[0] == tokenizer.bos_token_id
