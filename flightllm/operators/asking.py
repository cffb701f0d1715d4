"""Answer the units of one pass: known answers from the cache, the others from the engine, each prompt once."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from flightllm.ai import AICall
from flightllm.llm.base import Completion, Engine, Request
from flightllm.operators.batches import Unit
from flightllm.operators.cache import AnswerCache, Keys
from flightllm.operators.rows import Counters, given_fields, read_answer, sql_value
from flightllm.operators.trace import Trace

_FINISHED_UNITS = 8
"""Finished units that may wait behind the engine before it is left, so that cached answers do not pile up."""
_BACKLOG_RUNS, _BACKLOG_WINDOWS, _BACKLOG_BYTES = 4_096, 4, 64 << 20
"""What may wait behind a slow answer before the engine is left: so many runs, or windows of prompts if these are more;
of wide rows so many bytes, if these are at least two windows."""
_Place: TypeAlias = tuple[Unit, int, int]
"""A unit, a site of the pass and a run of the unit: where an answer goes."""


@dataclass(frozen=True, slots=True)
class Site:
    """One call of the pass: `order` puts the pass's argument columns in prompt order for this call's field names."""

    ai: AICall
    arguments: tuple[int, ...]
    """For each field of `ai`, the place of its value in a unit's tuples."""
    order: tuple[int, ...]
    """The fields of `ai` in prompt order."""
    guard: int | None
    keys: Keys
    counters: Counters


@dataclass(slots=True)
class _Waiting:
    """A prompt in flight and the places that want its answer."""

    key: bytes
    site: Site
    places: list[_Place] = field(default_factory=list)


class Asker:
    """Drive the engine, which keeps `window` prompts in flight, over the units of one pass. One thread uses it."""

    def __init__(self, engine: Engine, cache: AnswerCache, sites: Sequence[Site], window: int) -> None:
        self._engine = engine
        self._window = window
        self._cache = cache
        self._sites = sites
        self._ids = count()
        self._waiting: dict[int, _Waiting] = {}
        self._asked: dict[bytes, int] = {}
        self._failed: dict[bytes, str] = {}
        self._pending: deque[Unit] = deque()
        self._pending_runs = 0
        self._pending_bytes = 0
        self._trace = Trace()
        self._last: list[bytes | None] = [None] * len(sites)

    def answer(self, units: Iterator[Unit], cancelled: Callable[[], bool]) -> Generator[Unit, None, None]:
        """Yield the units in order, each once all of its answers are there.

        Raises:
            EngineError: the engine is gone, or a prompt failed whose call says `on_error => 'fail'`.
            CancelledError: `cancelled()` turned true.
        """
        self._exhausted = False
        try:
            while not self._exhausted:
                for completion in self._engine.generate(self._requests(units), cancelled):
                    self._settle(completion)
                    yield from self._finished()
                yield from self._finished()
        finally:
            self._cache.flush()

    def _finished(self) -> Iterator[Unit]:
        while self._pending and not self._pending[0].open:
            unit = self._pending.popleft()
            self._pending_runs -= len(unit.tuples)
            self._pending_bytes -= unit.rows.nbytes
            yield unit

    def _full(self) -> bool:
        """Tell whether enough units wait: finished ones to be sent on, others for the answers of the first."""
        if not self._pending or not self._pending[0].open:
            return len(self._pending) >= _FINISHED_UNITS
        runs = self._pending_runs
        if self._pending_bytes >= _BACKLOG_BYTES and runs >= 2 * self._window:
            return True
        return runs >= max(_BACKLOG_RUNS, _BACKLOG_WINDOWS * self._window)

    def _requests(self, units: Iterator[Unit]) -> Iterator[Request]:
        """Yield what must be asked; end early when many units wait, so that the engine answers what it has."""
        while not self._full():
            unit = next(units, None)
            if unit is None:
                self._exhausted = True
                return
            self._pending.append(unit)
            self._pending_runs += len(unit.tuples)
            self._pending_bytes += unit.rows.nbytes
            unit.open = 1  # not finished before every site has asked
            for place, site in enumerate(self._sites):
                yield from self._ask(unit, place, site)
            unit.open -= 1

    def _ask(self, unit: Unit, place: int, site: Site) -> Iterator[Request]:
        answers: list[Any] = [None] * len(unit.tuples)
        unit.answers.append(answers)
        wanted = self._wanted(unit, place, site)
        known = self._cache.get([key for _, _, key in wanted])
        hits = 0
        unit.open += len(wanted)
        for run, fields, key in wanted:
            if key in known:
                value, failure = read_answer(site.ai, known[key], None)
                if failure is None:
                    hits += 1
                    self._fill([(unit, place, run)], value, None)
                    continue
            if key in self._failed:
                self._fill([(unit, place, run)], None, self._failed[key])
            elif key in self._asked:
                self._waiting[self._asked[key]].places.append((unit, place, run))
            else:
                yield self._request(site, fields, key, (unit, place, run))
        site.counters.add(cache_hits=hits)

    def _wanted(self, unit: Unit, place: int, site: Site) -> list[tuple[int, list[tuple[str, str]], bytes]]:
        """List the runs that need an answer, with their named values in prompt order and their key."""
        wanted = []
        names, required = site.ai.fields, site.ai.required
        named = [(names[i], site.arguments[i], i in required) for i in site.order]
        needed = unit.needed(site.guard).tolist()
        repeated = 0
        for run, values in enumerate(unit.tuples):
            if not needed[run]:
                continue
            fields = given_fields(named, values)
            if fields is None:
                continue
            key = site.keys.key(fields)
            repeated += run == 0 and key == self._last[place]
            wanted.append((run, fields, key))
        if wanted:
            self._last[place] = wanted[-1][2]
        site.counters.add(rows=unit.rows.num_rows, distinct_prompts=len(wanted) - repeated)
        return wanted

    def _request(self, site: Site, fields: list[tuple[str, str]], key: bytes, place: _Place) -> Request:
        number = next(self._ids)
        self._waiting[number] = _Waiting(key, site, [place])
        self._asked[key] = number
        site.counters.add(calls=1)
        ai = site.ai
        request = Request(number, ai.prompt(fields), ai.parameters, ai.function, ai.instruction, tuple(fields))
        if self._trace:
            self._trace.sent(request)
        return request

    def _settle(self, completion: Completion) -> None:
        """Keep an answer that can be read, and put it where it is wanted."""
        if self._trace:
            self._trace.received(completion)
        waiting = self._waiting.pop(completion.id)
        del self._asked[waiting.key]
        waiting.site.counters.add(
            prompt_tokens=completion.prompt_tokens,
            cached_tokens=completion.cached_tokens,
            completion_tokens=completion.completion_tokens,
        )
        value, failure = read_answer(waiting.site.ai, completion.text, completion.error)
        if failure is not None:
            self._failed[waiting.key] = failure
        elif completion.text is not None:
            self._cache.put(waiting.key, completion.text)
        self._fill(waiting.places, value, failure)

    def _fill(self, places: Iterable[_Place], value: Any, failure: str | None) -> None:
        """Put an answer, or what `on_error` makes of a failure, where it is wanted."""
        for unit, place, run in places:
            site = self._sites[place]
            unit.answers[place][run] = sql_value(site.ai, value, failure)
            unit.open -= 1
            if failure is not None:
                site.counters.add(failed_rows=int((unit.run == run).sum()))
