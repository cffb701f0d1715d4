"""The most texts that an endpoint takes in one request, read from its refusals or found by halving."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF_COUNT = re.compile(
    r"batch.?size|too many (?:inputs|texts|items)|number of (?:inputs|texts|items)|(?:array|list).{0,40}length"
    r"|array too long|\b(?:inputs|texts|items)\b",
    re.IGNORECASE | re.DOTALL,
)
_OF_SIZE = re.compile(r"token|\b413\b|too (?:large|long|big)|payload|bytes|characters", re.IGNORECASE)
_TOKENS = re.compile(r"token", re.IGNORECASE)
_BOUND = re.compile(
    r"(?:max\w*|at most|limit\w*|(?:larger|more|greater) than|up to|less than or equal to|<=)\D{0,40}(\d+)",
    re.IGNORECASE,
)


class RequestLimits:
    """The limits of one endpoint: texts and characters per request. They only ever become smaller.

    Characters stand for tokens, because the endpoint's tokenizer is unknown.
    """

    def __init__(self, texts: int) -> None:
        self.texts = texts
        self.characters: int | None = None

    def fitting(self, texts: Sequence[str]) -> int:
        """Return how many of the first texts fit in one request: at least one."""
        size = 0
        for number, text in enumerate(texts[: self.texts]):
            size += len(text)
            if number and self.characters is not None and size > self.characters:
                return number
        return min(self.texts, len(texts))

    def explain(self, said: str) -> bool:
        """Return whether an error can be about the number or the size of the texts."""
        return bool(_OF_COUNT.search(said) or _OF_SIZE.search(said))

    def read(self, refusal: str, texts: int) -> bool:
        """Take the limit that a refusal of a request states; return whether it states one below `texts`."""
        if _TOKENS.search(refusal) or not _OF_COUNT.search(refusal):
            return False  # a number of tokens can be that of one text
        stated = [int(number) for number in _BOUND.findall(refusal) if 0 < int(number) < texts]
        if stated:
            self.texts = min(self.texts, max(stated))
        return bool(stated)

    def learn(self, refusal: str, accepted: Sequence[str]) -> None:
        """Remember the first texts of a refused request, which the endpoint accepted without the others."""
        of_count = _OF_COUNT.search(refusal) and not _TOKENS.search(refusal)
        if of_count or not _OF_SIZE.search(refusal):
            self.texts = min(self.texts, len(accepted))
            return
        size = sum(map(len, accepted))
        self.characters = size if self.characters is None else min(self.characters, size)
