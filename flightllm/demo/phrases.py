"""Seeded sentences: patterns with `{slots}` filled from word lists, every choice made by one random generator."""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])(?!one|us|uni)")
_SLOT = re.compile(r"\{(\$?)(\w+)\}")


def load_phrases() -> Mapping[str, Any]:
    """Return the sections of `phrases.toml`."""
    return tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))


class Writer:
    """Writes text from word lists; equal seeds and equal calls give equal text."""

    def __init__(self, rng: random.Random, words: Mapping[str, Any]) -> None:
        self._rng = rng
        self.words = words

    def pick(self, words: str) -> str:
        """Return one entry of a list, its slots left open."""
        return str(self._rng.choice(self.words[words]))

    def write(self, patterns: str, values: Mapping[str, str], words: Mapping[str, Sequence[str]] | None = None) -> str:
        """Choose a pattern of the list `patterns` and fill it; see `fill`."""
        return self.fill(self.pick(patterns), values, words)

    def fill(self, text: str, values: Mapping[str, str], words: Mapping[str, Sequence[str]] | None = None) -> str:
        """Fill `{$name}` from `values` and `{name}` from the word lists, never the same entry twice in one text."""
        lists = {**self.words, **(words or {})}
        used: set[str] = set()

        def slot(match: re.Match[str]) -> str:
            fixed, name = match.groups()
            if fixed:
                return values[name]
            options = [word for word in lists[name] if word not in used]
            chosen = self._rng.choice(options)
            used.add(chosen)
            return self.fill(chosen, values, words)

        return _ARTICLE.sub(r"\1n ", _SLOT.sub(slot, text))
