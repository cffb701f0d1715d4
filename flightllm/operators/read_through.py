"""Lay predicted answers over the cached ones, for a run that must not change the answer cache."""

from collections.abc import Sequence
from typing import Protocol


class Answers(Protocol):
    """The part of an answer cache that an operator needs."""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, without counting or marking them."""

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer."""

    def flush(self) -> None:
        """Commit remembered answers, before rows with these answers go out."""


class Peekable(Protocol):
    """An answer cache that can be read without counting or marking answers."""

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, without counting or marking them."""


class ReadThroughCache:
    """Predicted answers over those of `known` (None: no answers are known). One query's threads use it."""

    def __init__(self, known: Peekable | None) -> None:
        self._known = known
        self._own: dict[bytes, str] = {}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, cached or predicted."""
        found = {key: self._own[key] for key in keys if key in self._own}
        rest = [key for key in keys if key not in found]
        return {**found, **self._known.peek(rest)} if self._known is not None and rest else found

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the same as `get`."""
        return self.get(keys)

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer until the overlay is dropped."""
        self._own[key] = text

    def flush(self) -> None:
        """Do nothing."""
