"""The values that hold again after a transaction, of the settings that SET LOCAL changed."""

from collections.abc import Callable, Mapping

PutBack = Callable[[], None]
"""Gives a setting an earlier value again."""


SEARCH_PATH, TIMEOUT = "search_path", "timeout"


def key_of(name: str) -> str:
    """Return the name under which the value of a setting is kept, without the server's prefix."""
    key = name.lower().removeprefix("flightllm.")
    if key.startswith(("schema", "current_schema", "catalog")):  # the value can follow without a sign
        return SEARCH_PATH
    return TIMEOUT if key == "statement_timeout" else key


class LocalSettings:
    """The settings that SET LOCAL changed in the open transaction, by their names."""

    def __init__(self) -> None:
        self._changed: dict[str, PutBack] = {}

    def standing(self, name: str) -> PutBack | None:
        """Return a function that puts back the value after the transaction; None for another setting."""
        return self._changed.get(name)

    def add(self, name: str, put_back: PutBack) -> None:
        """Let a value end with the transaction."""
        self._changed[name] = put_back

    def drop(self, name: str) -> None:
        """Let the next value of a setting stay after the transaction; `all` stands for all settings."""
        if name == "all":
            self._changed.clear()
        else:
            self._changed.pop(name, None)

    def end(self) -> None:
        """Put all values back that hold after the transaction."""
        changed, self._changed = self._changed, {}
        for put_back in changed.values():
            put_back()

    def kept(self) -> Mapping[str, PutBack]:
        """Return the present state, to go back to with `go_back`."""
        return dict(self._changed)

    def go_back(self, kept: Mapping[str, PutBack]) -> None:
        """Take an earlier state again."""
        self._changed = dict(kept)
