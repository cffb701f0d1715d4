"""Estimated tokens of texts beside the tokens that tokenizers count."""

import pytest

from flightllm.engines.token_estimate import UNKNOWN, token_rules

TEXTS = {
    "Please return the lamp to the shop, because it is broken and the bill was not right.": (19, 19),
    "Der Kundendienst hat die Waschmaschine erst nach drei Wochen repariert.": (14, 15),
    "快递三天就到了，包装完好，客服也很耐心，下次还会在这家店购买。": (26, 20),
    "Доставка задержалась на неделю, но сам товар оказался лучше, чем я ожидал.": (18, 17),
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a": (24, 27),
    '{"id": 48213, "city": "Lyon", "lines": [{"sku": "LMP-20", "n": 2}]}': (33, 37),
    "2026-03-14 09:21:00 118.40": (16, 26),
}
"""Texts, with their tokens by OpenAI's and by Google's tokenizer."""


@pytest.mark.parametrize("text", TEXTS)
def test_estimates(text: str) -> None:
    """Each language and kind of text is near the real number of tokens, where four characters a token are far off."""
    for vendor, counted in zip(("openai", "gemini"), TEXTS[text], strict=True):
        assert token_rules(vendor, "").tokenizer.count(text) == pytest.approx(counted, rel=0.25)
    low, high = sorted(TEXTS[text])
    assert 0.7 * low <= UNKNOWN.tokenizer.count(text) <= 1.5 * high


def test_long_lines_count_as_short_ones() -> None:
    """A kept line has the same tokens as a line that is too short to keep."""
    count = UNKNOWN.tokenizer.count
    assert count("Zeile eins ist kurz. " * 40) == pytest.approx(40 * count("Zeile eins ist kurz. "), rel=0.1)
    assert (count(""), count(" "), count("a")) == (0, 1, 1)


@pytest.mark.parametrize(("spaces", "counted"), [(8, 2), (40, 2), (80, 2), (120, 3), (400, 5)])
def test_runs_of_spaces(spaces: int, counted: int) -> None:
    """A run of spaces before a word is a token for each hundred, as in OpenAI's tokenizer."""
    assert token_rules("openai", "").tokenizer.count(" " * spaces + "x") == counted


@pytest.mark.parametrize(
    ("provider", "model", "like"),
    [
        ("azure", "my-deployment", "openai"),
        ("openrouter", "anthropic/claude-sonnet-4.5", "anthropic"),
        ("groq", "openai/gpt-oss-20b", "openai"),
        ("vllm", "google/gemma-3-4b-it", "gemini"),
        ("fireworks", "accounts/fireworks/models/deepseek-v3p1", "deepseek"),
        ("unknown", "mistralai/Ministral-8B", "mistral"),
        ("unknown", "Qwen/Qwen3-8B", "unknown"),
    ],
)
def test_the_vendor_of_a_model(provider: str, model: str, like: str) -> None:
    """The tokenizer follows the model's vendor, wherever the model runs."""
    assert token_rules(provider, model).tokenizer == token_rules(like, "").tokenizer
