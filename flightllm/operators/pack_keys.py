"""Keys of answers that come from packs of rows or questions, and the cached answers that stand in for them."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from flightllm.operators.cache import CacheKeys
from flightllm.operators.read_through import Answers

_MARK_BYTES: Final = 8
_KEY_BYTES: Final = 16


class PackKeys:
    """The cache keys of a call whose answers come from packs.

    A key is that of the single prompt with a mark. So only sessions with packs read such an answer. Only those of the
    same user read it, because other rows or questions of a pack can influence it.
    """

    def __init__(self, keys: CacheKeys, user: str, *, questions: bool = False) -> None:
        """`questions` says that a pack has several questions about one row, and not several rows."""
        self._keys = keys
        what = "questions" if questions else "rows"
        self._mark = blake2b(f"{what} together for {user}".encode(), digest_size=_MARK_BYTES).digest()

    @property
    def alone(self) -> CacheKeys:
        """Return the keys of single prompts."""
        return self._keys

    def key(self, fields: Sequence[tuple[str, str]]) -> bytes:
        """Return the key of the answer to a row of named values, in the order of the prompt."""
        return self.marked(self._keys.key(fields))

    def marked(self, key: bytes) -> bytes:
        """Return the key for that of the single prompt."""
        return key + self._mark


def alone_key(key: bytes) -> bytes:
    """Return the key of the single prompt for a key of `PackKeys`."""
    return key[:-_MARK_BYTES] if len(key) == _KEY_BYTES + _MARK_BYTES else key  # equal rows without dedup


class PackedAnswers:
    """An answer cache for keys of `PackKeys`: answers to single prompts stand in for those of packs."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""
        return self._with_alone(keys, self._answers.get)

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`, without counting or marking them."""
        return self._with_alone(keys, self._answers.peek)

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer under the key as it is."""
        self._answers.put(key, text)

    def flush(self) -> None:
        """Commit remembered answers."""
        self._answers.flush()

    def _with_alone(
        self, keys: Sequence[bytes], read: Callable[[Sequence[bytes]], dict[bytes, str]]
    ) -> dict[bytes, str]:
        """Return answers by key. The keys of calls without packs have their usual length."""
        alone = {alone_key(key): key for key in keys if len(key) == _KEY_BYTES + _MARK_BYTES}
        single = read(list(alone)) if alone else {}
        return {**read(keys), **{alone[key]: text for key, text in single.items()}}
