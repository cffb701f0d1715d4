"""Seeded sentences: patterns with `{slots}` filled from word lists. One random generator makes every choice."""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_ARTICLE = re.compile(r"(?<![\w-])([Aa]) (?=(?i:[aeiou]|hono|honest|hour|heir))(?!(?i:one|us|uni[cfoqtv]|us[aeu]|eu))")
_SLOT = re.compile(r"\{(\$?)(\w+)\}")
_SENTENCE_START = re.compile(r'(?:^|(?<=[.!?] ))"?[a-z]')
_HELD_OUT_EACH = 8

T = TypeVar("T")


class Split(Enum):
    """The patterns of a list to use. Every eighth pattern is kept out of training, for tests."""

    ALL = "all"
    TRAINING = "training"
    HELD_OUT = "held out"

    def of(self, patterns: Sequence[T]) -> Sequence[T]:
        """Return this split's part of a list. A list that is too short to split is returned whole."""
        if self is Split.ALL or len(patterns) < _HELD_OUT_EACH:
            return patterns
        held_out = [index % _HELD_OUT_EACH == _HELD_OUT_EACH - 1 for index in range(len(patterns))]
        wanted = self is Split.HELD_OUT
        return [pattern for pattern, out in zip(patterns, held_out, strict=True) if out is wanted]


@cache
def load_phrases() -> Mapping[str, Any]:
    """Return the sections of `phrases.toml`, the source of the sample tables."""
    return _read(Path(__file__).with_name("phrases.toml"))


@cache
def load_language(name: str) -> Mapping[str, Any]:
    """Return `language/NAME.toml`, a source of the model's training text, with the shared word lists added."""
    folder = Path(__file__).with_name("language")
    content = _read(folder / f"{name}.toml")
    return {**content, "words": {**_read(folder / "words.toml"), **content.get("words", {})}}


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


class Writer:
    """Writes text from word lists; equal seeds and equal calls give equal text.

    `split` limits the patterns that `choose` takes; `brief` asks for the shortest texts. The caller can use `rng` for
    other choices.
    """

    def __init__(
        self, rng: random.Random, words: Mapping[str, Any], split: Split = Split.ALL, *, brief: bool = False
    ) -> None:
        self.rng = rng
        self.words = words
        self.split = split
        self.brief = brief

    def over(self, words: Mapping[str, Any]) -> "Writer":
        """Return a writer with the same random generator over other word lists."""
        return Writer(self.rng, words, self.split, brief=self.brief)

    def choose(self, patterns: Sequence[T]) -> T:
        """Return one of the split's patterns."""
        return self.rng.choice(self.split.of(patterns))

    def count(self, low: int, high: int) -> int:
        """Return a random count from `low` to `high`; in a brief text `low`, but at most one."""
        return min(low, 1) if self.brief else self.rng.randint(low, high)

    def chance(self, share: float) -> bool:
        """Return true with this probability."""
        return self.rng.random() < share

    def pick(self, words: str) -> str:
        """Return one entry of a list with its slots unfilled."""
        return str(self.rng.choice(self.words[words]))

    def write(self, patterns: str, values: Mapping[str, str], words: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return a random pattern of the list `patterns`, filled by `fill`."""
        return self.fill(self.pick(patterns), values, words)

    def fill(self, text: str, values: Mapping[str, str], words: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return text with `{$name}` filled from `values` and `{name}` from the word lists, no entry twice in one text.

        Outside of values, `#` becomes a digit.
        """
        lists = {**self.words, **(words or {})}
        used: set[str] = set()

        def slot(match: re.Match[str]) -> str:
            fixed, name = match.groups()
            if fixed:
                return values[name]
            options = [word for word in lists[name] if word not in used]
            chosen = self.rng.choice(options)
            used.add(chosen)
            return self.fill(chosen, values, words)

        return _ARTICLE.sub(r"\1n ", _SLOT.sub(slot, self._digits(text)))

    def sentence(self, text: str, values: Mapping[str, str]) -> str:
        """Return a filled pattern in which each sentence begins with a capital letter."""
        return _SENTENCE_START.sub(lambda match: match[0].upper(), self.fill(text, values))

    def _digits(self, text: str) -> str:
        return re.sub("#", lambda _: str(self.rng.randrange(10)), text) if "#" in text else text
