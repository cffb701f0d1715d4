"""Look up chunks in the store, in the background."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import structlog

from flightllm.kvcache.background import Background
from flightllm.kvcache.store.base import ChunkStore

_log = structlog.get_logger(__name__)

_FRESH_SECONDS = 2.0
"""The time for which an answer is reused, because the rows of a query repeat the same lookup."""
_AVOID_SECONDS = 60.0
"""The time for which a chunk that could not be loaded counts as not held."""
_REMEMBERED = 4_096


@dataclass(slots=True)
class _Answer:
    since: float
    held: frozenset[str] | None = None


class Lookups:
    """Background lookups of the chunks that a store holds in at least one of some codecs. Thread-safe.

    A store that fails or is slow is not asked for a while.
    """

    def __init__(
        self,
        store: ChunkStore,
        codecs: Collection[str],
        timeout: float,
        pause: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._codecs = store, frozenset(codecs)
        self._timeout, self._pause = timeout, pause
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        """Answers by the last key of a lookup, which identifies the keys before it."""
        self._avoided: dict[str, float] = {}
        self._paused_until = 0.0
        self._background = Background("kv-lookup")

    def held(self, keys: tuple[str, ...]) -> frozenset[str] | None:
        """Return the known held chunks of a prompt; None if the answer is pending, so that the caller asks again."""
        now = self._clock()
        with self._lock:
            answer = self._answers.get(keys[-1])
            if answer is not None and answer.held is not None and now - answer.since < _FRESH_SECONDS:
                return self._without_avoided(answer.held)
            if answer is not None and answer.held is None and now - answer.since >= self._timeout:
                del self._answers[keys[-1]]
                self._fail("it did not answer in time")
            if now < self._paused_until:
                return frozenset()
            if answer is not None and answer.held is None:
                return None
            if len(self._answers) >= _REMEMBERED and not self._forget(now):
                return frozenset()  # computing is better than waiting for ever
            answer = self._answers[keys[-1]] = _Answer(now)
            self._answers.move_to_end(keys[-1])
        self._background.submit(lambda: self._ask(keys, answer))
        return None

    def seen(self, keys: tuple[str, ...]) -> frozenset[str]:
        """Return the held chunks by the last answer for these keys, without a new lookup."""
        with self._lock:
            answer = self._answers.get(keys[-1])
            return frozenset() if answer is None or answer.held is None else self._without_avoided(answer.held)

    def failed(self, keys: Iterable[str]) -> None:
        """Record that chunks could not be loaded: for a while they count as not held, and the store is not asked.

        The chunks can be damaged or evicted, or the store can be down.
        """
        with self._lock:
            until = self._clock() + _AVOID_SECONDS
            self._avoided |= dict.fromkeys(keys, until)
            self._fail("a load failed")

    def close(self) -> None:
        """Stop all lookups."""
        self._background.close()

    def _forget(self, now: float) -> bool:
        """Drop outdated answers; return whether there were outdated answers. The caller must hold the lock."""
        last, oldest = next(iter(self._answers.items()))
        stale = now - oldest.since >= (self._timeout if oldest.held is None else _FRESH_SECONDS)
        if stale:
            del self._answers[last]
        return stale

    def _ask(self, keys: tuple[str, ...], answer: _Answer) -> None:
        with self._lock:
            if self._answers.get(keys[-1]) is not answer:  # no caller waits for this answer
                return
        try:
            found = self._store.lookup(keys)
            held = frozenset(key for key, sizes in zip(keys, found, strict=True) if not self._codecs.isdisjoint(sizes))
        except Exception as error:  # noqa: BLE001 - after any error, prompts are computed
            with self._lock:
                self._answers.pop(keys[-1], None)
                self._fail(str(error))
            return
        with self._lock:
            answer.held, answer.since = held, self._clock()

    def _fail(self, reason: str) -> None:
        """Stop asking the store for a while. The caller must hold the lock."""
        now = self._clock()
        if now >= self._paused_until:
            _log.warning("kv_store_unavailable", reason=reason, seconds=self._pause)
        self._paused_until = now + self._pause

    def _without_avoided(self, held: frozenset[str]) -> frozenset[str]:
        if not self._avoided:
            return held
        now = self._clock()
        self._avoided = {key: until for key, until in self._avoided.items() if until > now}
        return held.difference(self._avoided)
