"""Estimate the tokens of a text for a model whose tokenizer is not here.

Tokenizers cut texts alike. A common word is one token, and a long word of most languages is two or three. Each other
script has a fairly constant number of tokens for each character. The figures below are measured: for each vendor's
public tokenizer, they are the least squares over texts in 29 languages, prose, source code, JSON and numbers. Anthropic
has published only the tokenizer of its older models. `name` and `rare` are the least squares over English prose of
three vendors; the other vendors have the mean of these.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_ENGLISH: Final = frozenset(b"the of and to in is that it for with on this be are by or not as you from a an".split())
_SAMPLED: Final = 4_096
"""The characters of a line that show whether it is English."""
_SPACES, _SPACES_PER_TOKEN = re.compile(r"[ \t]{8,}"), 100
"""Most tokenizers make one token of about 100 spaces. Shorter runs are a part of the next word."""
_ENGLISH_SHARE: Final = 0.2
"""The share of the words above from which a line counts as English, whose long words are mostly one token."""
_USUAL_LETTERS: Final = 6
_COMMON_LETTERS: Final = 9
_BEGINS: Final = re.compile(rb"(?:^|\0|\. +)Aa")
"""The kinds at the begin of a line or a sentence, where each word has a capital."""
_KEPT_LINE, _KEPT_LINES = 64, 4_096
"""Lines of at least so many characters are counted once: prompts share instructions and documents."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The mean tokens for parts of a text, for the tokenizers of one vendor."""

    word: float
    """A word of letters of the Latin script."""
    long: float
    """Each letter of a word beyond its sixth, outside English."""
    digit: float
    digits: float
    """A row of digits, beyond its digits."""
    marks: float
    """A row of punctuation."""
    newline: float
    accented: float
    """A letter with an accent, beyond its word."""
    greek: float
    cyrillic: float
    hebrew: float
    arabic: float
    indic: float
    thai: float
    hangul: float
    kana: float
    han: float
    other: float
    """A mark outside ASCII."""
    name: float = 0.0
    """A capitalised word inside a sentence of English, beyond its word: most names are two tokens."""
    rare: float = 0.0
    """Each letter of a word of English beyond its ninth."""

    def count(self, text: str) -> int:
        """Return the estimated tokens of a text; at least 1 for a text that is not empty."""
        if not text:
            return 0
        lines = text.split("\n")
        tokens = self.newline * (len(lines) - 1)
        tokens += sum(_kept(self, line) for line in lines if len(line) >= _KEPT_LINE)
        if short := [line for line in lines if line and len(line) < _KEPT_LINE]:
            tokens += _of_line(self, "\n".join(short))  # together, because each call takes some time
        return max(1, round(tokens))


def _of_line(tokenizer: Tokenizer, line: str) -> float:
    """Return the tokens of a line, by operations on bytes, which take less time than a regular expression.

    Example: `Das Haus, 24 m` has the kinds `Aaa Aaaa. 00 a`: three words, a mark, and two digits in a row.
    """
    kinds = line.encode().translate(_ASCII_KINDS) if line.isascii() else _kinds(line)
    words = _words(kinds)
    tokens = tokenizer.word * len(words) + tokenizer.marks * len(kinds.translate(_MARKS_ALONE).split())
    long = [one for one in words if len(one) > _USUAL_LETTERS]
    capitals = kinds.count(b"Aa")
    if long or capitals:
        begin = line[:_SAMPLED].encode("ascii", "replace").translate(_LOWER_WORDS).split()
        sampled = len(words) if len(line) <= _SAMPLED else len(_words(kinds[:_SAMPLED]))
        if sum(map(_ENGLISH.__contains__, begin)) <= _ENGLISH_SHARE * sampled:
            tokens += tokenizer.long * (sum(map(len, long)) - _USUAL_LETTERS * len(long))
        else:
            tokens += tokenizer.name * (capitals - len(_BEGINS.findall(kinds)))
            tokens += tokenizer.rare * sum(len(one) - _COMMON_LETTERS for one in long if len(one) > _COMMON_LETTERS)
    if digits := kinds.count(b"0"):
        tokens += tokenizer.digit * digits + tokenizer.digits * len(kinds.translate(_DIGITS_ALONE).split())
    if b"        " in kinds:
        tokens += sum(math.ceil(len(run) / _SPACES_PER_TOKEN) for run in _SPACES.findall(line))
    if not line.isascii():
        tokens += sum(kinds.count(kind) * getattr(tokenizer, name) for kind, name in _KINDS_OF_SCRIPTS)
    return tokens


_kept = lru_cache(maxsize=_KEPT_LINES)(_of_line)


def _words(kinds: bytes) -> list[bytes]:
    """Return the words of a line by its characters' kinds: a new word begins at a capital, or after capitals.

    Example: `Aaa` is a word, `aaAaa` is two, and `AAAaa` is `AAA` and `aa`.
    """
    letters = b" " + kinds.translate(_LETTERS_ALONE)
    if b"A" in letters:
        letters = letters.replace(b" Aa", b" aa").replace(b"aAa", b"a aa").replace(b"Aa", b"A a").replace(b"aA", b"a A")
    return letters.split()


def _kinds(line: str) -> bytes:
    """Return the kind of each character of a line that is not ASCII."""
    codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    found: bytes = _all_kinds()[np.minimum(codes, _LAST)].tobytes()
    return found


_RANGES: Final[Sequence[tuple[int, str]]] = (
    (0x0, ""), (0x80, "other"), (0xC0, "accented"), (0x250, "other"), (0x370, "greek"), (0x400, "cyrillic"),
    (0x530, "other"), (0x590, "hebrew"), (0x600, "arabic"), (0x780, "other"), (0x900, "indic"), (0xE00, "thai"),
    (0xE80, "other"), (0x1100, "hangul"), (0x1200, "other"), (0x1E00, "accented"), (0x1F00, "greek"), (0x2000, "other"),
    (0x3000, "han"), (0x3040, "kana"), (0x3100, "other"), (0x3400, "han"), (0xA000, "other"), (0xAC00, "hangul"),
    (0xD7B0, "other"), (0xF900, "han"), (0xFB00, "other"), (0xFF00, "han"), (0xFFF0, "other"),
)  # fmt: skip
"""The first character of each range, and its script."""
_LAST: Final = 0xFFFF
"""Characters from here on have the same script."""
_KINDS_OF_SCRIPTS: Final = tuple(
    (bytes([0x80 + place]), name) for place, name in enumerate(sorted({name for _, name in _RANGES if name}))
)
"""The byte that stands for a character of each script."""


def _alone(kinds: bytes, other: bytes = b"") -> bytes:
    """Return the table that leaves some kinds, and makes spaces of all others."""
    return bytes(kind if kind in kinds else b"a"[0] if kind in other else b" "[0] for kind in range(256))


_ASCII_KINDS: Final = bytes(
    b"a"[0]
    if one in string.ascii_lowercase
    else b"A"[0]
    if one in string.ascii_uppercase
    else b"0"[0]
    if one in string.digits
    else b"."[0]
    if one in string.punctuation
    else b" "[0]
    if one in " \t"
    else 0
    for one in map(chr, range(256))
)
"""The kind of each ASCII character: a small letter, a capital, a digit, a mark, a space, or none of them."""
_ACCENTED: Final = next(kind for kind, name in _KINDS_OF_SCRIPTS if name == "accented")
"""The byte that stands for a letter with an accent."""
_LETTERS_ALONE, _DIGITS_ALONE, _MARKS_ALONE = _alone(b"aA", _ACCENTED), _alone(b"0"), _alone(b".")
"""Tables that leave the characters of one kind. Letters with an accent become small letters."""
_LOWER_WORDS: Final = bytes(
    ord(one.lower()) if one.isalnum() or one == "_" else b" "[0] for one in map(chr, range(128))
) + bytes(128)


@cache
def _all_kinds() -> NDArray[np.uint8]:
    """Return the kind of each character up to `_LAST`."""
    kinds = {name: kind for kind, name in _KINDS_OF_SCRIPTS}
    table = np.zeros(_LAST + 1, np.uint8)
    for start, name in _RANGES:
        table[start:] = kinds[name][0] if name else 0
    table[:0x80] = np.frombuffer(_ASCII_KINDS[:0x80], np.uint8)
    return table


_OPENAI: Final = Tokenizer(
    0.97, 0.3, 0.43, 0.56, 0.86, 0.95, 0.46, 0.37, 0.3, 0.44, 0.33, 0.38, 0.36, 0.64, 0.6, 0.71, 1.4, 0.63, 0.3
)
_ANTHROPIC: Final = Tokenizer(
    1.05, 0.45, 0.43, 0.24, 0.94, 0.4, 1.5, 1.27, 0.6, 1.02, 1.17, 1.72, 1.8, 1.22, 0.9, 0.92, 1.5, 0.7, 0.34
)
_GOOGLE: Final = Tokenizer(
    0.9, 0.28, 1.05, 0.0, 1.2, 1.0, 0.38, 0.39, 0.28, 0.47, 0.34, 0.48, 0.35, 0.71, 0.33, 0.61, 1.1, 0.7, 0.34
)
_DEEPSEEK: Final = Tokenizer(
    0.96, 0.37, 0.42, 0.47, 1.0, 0.8, 0.87, 0.5, 0.36, 0.54, 0.41, 0.54, 0.33, 0.77, 0.57, 0.59, 1.4, 0.67, 0.27
)
_MISTRAL: Final = Tokenizer(
    0.96, 0.35, 1.1, 0.22, 0.84, 1.0, 0.41, 0.4, 0.34, 0.5, 0.33, 0.46, 0.5, 0.66, 0.56, 0.94, 1.5, 0.79, 0.45
)
_MEAN: Final = Tokenizer(
    0.97, 0.33, 0.64, 0.32, 1.0, 0.85, 0.7, 0.52, 0.36, 0.57, 0.46, 0.62, 0.53, 0.78, 0.57, 0.75, 1.4, 0.7, 0.34
)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How an endpoint counts a chat: the tokenizer, and the tokens of the chat template around the texts."""

    tokenizer: Tokenizer = _MEAN
    prompt: int = 3
    """Tokens for each prompt: its begin, and the begin of the answer."""
    message: int = 3
    """Tokens around each message."""
    answer: int = 1
    """Tokens of an answer beyond its text, such as the end token."""
    schema: bool = False
    """Whether the schema of `response_format` counts as a part of the prompt."""


UNKNOWN: Final = TokenRules()
_RULES: Final = {
    "openai": TokenRules(_OPENAI, 3, 4, 1, schema=True),
    "anthropic": TokenRules(_ANTHROPIC, 3, 3, 3),
    "gemini": TokenRules(_GOOGLE, 1, 0, 0, schema=True),
    "deepseek": TokenRules(_DEEPSEEK, 1, 1, 1),
    "mistral": TokenRules(_MISTRAL, 1, 2, 1, schema=True),
}
_BY_MODEL: Final = (
    (re.compile(r"(?:^|/)(?:gpt-|o\d|chatgpt)"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini|gemma"), "gemini"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"(?:mis|minis|magis|codes|devs|pix|mix)tral"), "mistral"),
)


@lru_cache(maxsize=256)
def token_rules(provider: str, model: str) -> TokenRules:
    """Return how a provider counts the tokens of a model's chats.

    A model at another provider has its vendor's tokenizer. Its schema is not a part of its prompt.
    """
    if provider in _RULES:
        return _RULES[provider]
    if provider == "azure":
        return _RULES["openai"]
    vendor = next((name for pattern, name in _BY_MODEL if pattern.search(model.lower())), None)
    if vendor is None:
        return UNKNOWN
    known = _RULES[vendor]
    return TokenRules(known.tokenizer, known.prompt, known.message, known.answer, schema=False)
