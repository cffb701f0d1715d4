"""Estimated tokens of texts beside the tokens that tokenizers count."""

import pytest

from flightllm.engines.token_estimate import UNKNOWN, Tokenizer, token_rules

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the HTMLParser", 3),
        ("toString", 2),
        ("NASA, ESA and Max", 4),
        ("x1y2", 2),
        ("Straße über Köln", 3),
        ("ÉCOLE", 2),
        ("eins\nzwei\tdrei", 3),
        ("кот 猫 cat 😀 \ud800", 1),
        ("12:30 -- !", 0),
    ],
)
def test_words(text: str, words: int) -> None:
    """A word begins at a capital, and after capitals; other scripts, digits and marks have figures of their own."""
    assert Tokenizer(1, *[0] * 16).count(f"{text}\n" + "one " * 100) == words + 100
    assert Tokenizer(1, *[0] * 16).count(f"{text} " + "one " * 100) == words + 100


def test_names_and_rare_words_of_english() -> None:
    """In English, names inside a sentence and letters beyond the ninth have further tokens."""
    only = {name: Tokenizer(*[0.0] * 17, **{name: 1.0}) for name in ("name", "rare")}
    text = "The duke of Apulia and the lord of Capua met in Melfi. Those of the norms are an archaeological find. "
    german = "Der Herzog und der Graf sind mit der Bahn nach Rom gefahren, weil es dort eine Ausgrabung gibt. "
    assert {name: one.count(text * 4) for name, one in only.items()} == {"name": 12, "rare": 20}
    assert {name: one.count(german * 4) for name, one in only.items()} == {"name": 1, "rare": 1}


def test_prose_with_names() -> None:
    """An encyclopedia's sentences have many names: the estimate is near OpenAI's 62 tokens."""
    text = (
        "The two most prominent Norman families to arrive in the Mediterranean were descendants of Tancred of"
        " Hauteville and the Drengot family, of whom Rainulf Drengot received the county of Aversa, the first Norman"
        " toehold in the south, from Duke Sergius IV of Naples in 1030."
    )
    assert token_rules("openai", "").tokenizer.count(text) == pytest.approx(62, rel=0.08)


def test_digits_marks_and_scripts() -> None:
    """Each kind of character counts once, also beside others: digits, rows of digits, rows of marks, and scripts."""
    only = {
        name: Tokenizer(*(1.0 if name == one else 0.0 for one in Tokenizer.__slots__)) for name in Tokenizer.__slots__
    }
    text = "On 2026-03-14: кот... 猫が ελ é — \U0001f600 x\n"
    found = {name: tokenizer.count(text * 20) / 20 for name, tokenizer in only.items()}
    wanted = {"digit": 8, "digits": 3, "marks": 4, "newline": 1, "cyrillic": 3, "han": 1, "kana": 1, "greek": 2}
    assert {name: found[name] for name in wanted} == wanted
    assert (found["accented"], found["other"], found["word"]) == (1, 2, 3)
