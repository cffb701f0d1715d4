"""Answers on top of the kept ones, for a run that must leave no trace: it reads what is known and keeps nothing."""

from collections.abc import Sequence
from typing import Protocol


class Answers(Protocol):
    """What an operator needs of an answer cache."""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, as if nobody had asked."""

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer."""

    def flush(self) -> None:
        """Keep what was remembered, before rows with these answers go out."""


class Peekable(Protocol):
    """An answer cache that can be read without a trace."""

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, as if nobody had asked."""


class Overlay:
    """Predicted answers over those of `known` (None: nothing is known). One query's threads use it."""

    def __init__(self, known: Peekable | None) -> None:
        self._known = known
        self._own: dict[bytes, str] = {}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, kept or predicted."""
        found = {key: self._own[key] for key in keys if key in self._own}
        rest = [key for key in keys if key not in found]
        return {**found, **self._known.peek(rest)} if self._known is not None and rest else found

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the same."""
        return self.get(keys)

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer as long as the overlay lasts."""
        self._own[key] = text

    def flush(self) -> None:
        """Do nothing."""
