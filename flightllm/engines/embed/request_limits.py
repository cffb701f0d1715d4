"""The most texts that an endpoint takes in one request, read from its refusals or found by halving."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_OF_COUNT = re.compile(
    r"batch|too many (?:inputs|texts|items)|number of (?:inputs|texts|items)|(?:array|list).{0,40}length"
    r"|array too long|\b(?:inputs|texts|items)\b",
    re.IGNORECASE | re.DOTALL,
)
_OF_SIZE = re.compile(r"token|\b413\b|too (?:large|long|big)|payload|bytes|characters", re.IGNORECASE)
_TOKENS = re.compile(r"token|character|byte", re.IGNORECASE)
_BOUND = re.compile(
    r"(?:max\w*|at most|limit\w*|(?:larger|more|greater) than|up to|less than or equal to|<=)\D{0,40}(\d+)",
    re.IGNORECASE,
)

_CLOSE = 1 / 8
"""A limit is close if the endpoint refused a request that was larger by this part."""


class RequestLimits:
    """The limits of one endpoint: texts and characters per request.

    Characters stand for tokens, because the endpoint's tokenizer is unknown. A limit is the most that was accepted so
    far. Single requests try the middle between it and the least that was refused, until the two are close.
    """

    def __init__(self, texts: int) -> None:
        self.texts = texts
        self.characters: int | None = None
        self._too_many = self._too_large = math.inf
        """The fewest texts and characters that were refused."""
        self._doubted = math.inf
        """The texts of a request that failed twice, although its halves did not fail."""

    def fitting(self, texts: Sequence[str], *, more: bool = False) -> int:
        """Return how many of the first texts fit in one request: at least one.

        With `more`, the request goes beyond the known limits where the endpoint can possibly take more.
        """
        most, characters = self.texts, self.characters
        if more:
            most = _middle(most, self._too_many)
            characters = None if characters is None else _middle(characters, self._too_large)
        size = 0
        for number, text in enumerate(texts[:most]):
            size += len(text)
            if number and characters is not None and size > characters:
                return number
        return min(most, len(texts))

    def explain(self, said: str) -> bool:
        """Return whether an error can be about the number or the size of the texts."""
        return bool(_OF_COUNT.search(said) or _OF_SIZE.search(said))

    def read(self, refusal: str, texts: int) -> bool:
        """Take the limit that a refusal of a request states; return whether it states one below `texts`."""
        if _TOKENS.search(refusal) or not _OF_COUNT.search(refusal):
            return False  # a number of tokens or characters can be that of one text
        stated = [int(number) for number in _BOUND.findall(refusal) if 0 < int(number) < texts]
        if stated:
            self.texts = min(self.texts, max(stated))
            self._too_many = self.texts + 1
        return bool(stated)

    def accepted(self, texts: Sequence[str]) -> None:
        """Remember that the endpoint accepted a request."""
        self.texts = max(self.texts, len(texts))
        if len(texts) > 1 and self.characters is not None:
            self.characters = max(self.characters, _size(texts))
        if len(texts) >= self._doubted:
            self._doubted = math.inf

    def learn(self, refusal: str, texts: Sequence[str]) -> None:
        """Remember the texts of a refused request, although the endpoint accepted each half of it."""
        of_count = _OF_COUNT.search(refusal) and not _TOKENS.search(refusal)
        if of_count or not _OF_SIZE.search(refusal):
            self._too_many = min(self._too_many, len(texts))
            if self.texts >= self._too_many:
                self.texts = max(1, int(self._too_many) // 2)
            return
        self._too_large = min(self._too_large, _size(texts))
        if self.characters is None or self.characters >= self._too_large:
            self.characters = int(self._too_large) // 2

    def doubt(self, texts: Sequence[str]) -> None:
        """Count a request that failed twice without a reason, although its halves did not; the second sets a limit."""
        if self._doubted != math.inf:
            self.learn("", texts)
        self._doubted = len(texts)


def _middle(accepted: int, refused: float) -> int:
    """Return the middle between two sizes, or the accepted size if they are close."""
    return (
        accepted if refused == math.inf or refused - accepted <= 1 + accepted * _CLOSE else int(accepted + refused) // 2
    )


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts))
