"""Ask the store what it holds, never in anybody's way."""

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
"""How long an answer is taken as true: the rows of a query ask the same again and again."""
_AVOID_SECONDS = 60.0
"""How long a chunk that could not be loaded is taken as not held."""
_REMEMBERED = 4_096


@dataclass(slots=True)
class _Answer:
    since: float
    held: frozenset[str] | None = None


class Lookups:
    """What a store holds in any of some codecs, asked in the background.

    A store that fails, or is slow, is left alone a while. Safe to use from several threads.
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
        """By the last key, which stands for the others."""
        self._avoided: dict[str, float] = {}
        self._paused_until = 0.0
        self._background = Background("kv-lookup")

    def held(self, keys: tuple[str, ...]) -> frozenset[str] | None:
        """Return which of a prompt's chunks are held, as far as is known; None means: ask again in a moment."""
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
                return frozenset()  # computing is better than asking for ever
            answer = self._answers[keys[-1]] = _Answer(now)
            self._answers.move_to_end(keys[-1])
        self._background.submit(lambda: self._ask(keys, answer))
        return None

    def seen(self, keys: tuple[str, ...]) -> frozenset[str]:
        """Return which chunks the store said that it holds when it was last asked for them; it is not asked now."""
        with self._lock:
            answer = self._answers.get(keys[-1])
            return frozenset() if answer is None or answer.held is None else self._without_avoided(answer.held)

    def failed(self, keys: Iterable[str]) -> None:
        """Take note that chunks could not be loaded: they are taken as not held a while, and the store is left alone.

        What is held of them may be damaged, or gone, or the store may be.
        """
        with self._lock:
            until = self._clock() + _AVOID_SECONDS
            self._avoided |= dict.fromkeys(keys, until)
            self._fail("a load failed")

    def close(self) -> None:
        """Ask nothing any more."""
        self._background.close()

    def _forget(self, now: float) -> bool:
        """Make room by what is not fresh any more; tell whether there was any. The caller holds the lock."""
        last, oldest = next(iter(self._answers.items()))
        stale = now - oldest.since >= (self._timeout if oldest.held is None else _FRESH_SECONDS)
        if stale:
            del self._answers[last]
        return stale

    def _ask(self, keys: tuple[str, ...], answer: _Answer) -> None:
        with self._lock:
            if self._answers.get(keys[-1]) is not answer:  # nobody waits for it any more
                return
        try:
            found = self._store.lookup(keys)
            held = frozenset(key for key, sizes in zip(keys, found, strict=True) if not self._codecs.isdisjoint(sizes))
        except Exception as error:  # noqa: BLE001 - whatever it is, prompts are computed then
            with self._lock:
                self._answers.pop(keys[-1], None)
                self._fail(str(error))
            return
        with self._lock:
            answer.held, answer.since = held, self._clock()

    def _fail(self, reason: str) -> None:
        """Leave the store alone for a while; the caller holds the lock."""
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
