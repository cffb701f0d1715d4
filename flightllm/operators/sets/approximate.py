"""Count or average a model's answers over groups, and ask about some rows: waves of all groups go out together.

The interval of each group is valid after every wave, so the asking ends once it is narrow enough: see
`sampled_mean.py`.
"""

import math
import zlib
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from flightllm.errors import InternalError
from flightllm.functions.approximate import ASK, STREAM
from flightllm.functions.call import AICall
from flightllm.functions.over_set import OverSet
from flightllm.operators.sets.asker import Asker, Reply, Texts
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.known_answers import known_answers
from flightllm.operators.sets.sampled_groups import Group, chances, read_group
from flightllm.operators.sets.sampled_scores import Scores, scores_of
from flightllm.quality.bins import Flags, Floats, Ints
from flightllm.quality.prediction import Predicted
from flightllm.quality.sampled_mean import SampledMean

_FEW_KNOWN: Final = 0.1
"""The answer cache counts exactly where it has more than this share of all answers, and a rerun does not explain it."""
_EXPLAINED: Final = 0.5


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return the aggregate of each group, as narrow as the call wants."""
    [last] = deque(waves(values, asker), maxlen=1)
    return last


def waves(values: SetValues, asker: Asker) -> Iterator[Sequence[Any]]:
    """Yield the aggregates of all groups after each wave; the last ones are final.

    Raises:
        EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    if not values.tuples:
        yield []
        return
    asking = _Asking(asker, [read_group(texts, asker.call.required) for texts in values.tuples])
    while asking.wave():
        if not asking.done and not asking.collects:
            yield asking.results(final=False)
    asking.tell()
    yield asking.results(final=True)


@dataclass
class _State:
    """One group, and what is known about it. `first` is the place of its first unit among those of all groups."""

    group: Group
    mean: SampledMean
    first: int
    failed: int = 0

    @property
    def units(self) -> slice:
        return slice(self.first, self.first + len(self.group.prompts))


def _beside(salt: str, known: Floats) -> str:
    """Return the salt of a sample beside known answers.

    Earlier samples left these answers. With their salt, the units left over would be those that they did not want, and
    no sample. So other known answers make another salt.
    """
    there = blake2b(np.packbits(~np.isnan(known)).tobytes(), digest_size=8).hexdigest()
    return f"{salt} beside {there}"


def _place_of(salt: str, prompts: Sequence[Texts]) -> bytes:
    """Return the key under which the answer cache keeps what a run over prompts counted."""
    found = blake2b(repr(("counted", salt)).encode(), digest_size=32)
    for prompt in prompts:
        found.update(repr(prompt).encode("utf-8", "surrogatepass"))
    return found.digest()


def _unpacked(text: str | None, count: int) -> Flags | None:
    """Return which of `count` values a run counted; None where nothing usable is kept."""
    if text is None:
        return None
    try:
        found = np.frombuffer(zlib.decompress(b64decode(text)), np.uint8)
    except (ValueError, zlib.error):
        return None
    return np.unpackbits(found, count=count).astype(bool) if len(found) == -(-count // 8) else None


@dataclass
class _Asking:
    """The waves of one call."""

    asker: Asker
    groups: Sequence[Group]
    _states: list[_State] = field(init=False)
    _prompts: list[Texts] = field(init=False)
    _taught: list[int] = field(default_factory=list, init=False)
    _values: list[float] = field(default_factory=list, init=False)
    _spent: int = field(default=0, init=False)
    _refused: str = field(default="", init=False)

    def __post_init__(self) -> None:
        over = self.asker.call.over
        if over is None:
            raise InternalError(f"{self.asker.call.text} is not over a set")
        self._over: OverSet[AICall] = over
        self._question = over.questions[ASK]
        self._binding = self.asker.binding(self._question)
        self._prompts = [prompt for group in self.groups for prompt in group.prompts]
        self._scores: Scores = scores_of(self.asker, self._prompts)
        salt = repr((self._question.instruction, self._question.fields, self._question.model))
        self._known = self._find_known(salt)
        self._states = self._started(salt if self._known is None else _beside(salt, self._known), self._known)

    @property
    def done(self) -> bool:
        """Return whether no group needs more answers."""
        return all(state.mean.done for state in self._states)

    @property
    def collects(self) -> bool:
        """Return whether the statement is deferred, so that nobody waits for rows that are not final."""
        return self._binding.collects

    def wave(self) -> bool:
        """Ask about some units of all groups; return False if every unit is asked that must be."""
        wanted = self._next(self._states, self._scores.predicted(self._taught_units, self._taught_values))
        if not wanted:
            return False
        units = np.concatenate([state.first + units for state, units in wanted])
        replies = self._scores.replies(
            units, self.asker.ask(self._question, [self._prompts[u] for u in units.tolist()])
        )
        self._spent += len(units)
        if self._binding.refusal and any(reply.value is None for reply in replies):
            # Chance did not choose the answers that lack, so the others are not a sample.
            self._refused = self._binding.refusal
            for state in self._states:
                if not state.mean.done:
                    state.mean.stop("budget")
            return False
        self._take(wanted, replies)
        return True

    def results(self, *, final: bool) -> list[Any]:
        """Return the aggregate of each group."""
        return [self._result(state, final=final) for state in self._states]

    def tell(self) -> None:
        """Tell the query's record what its user must know."""
        warn, text = self.asker.runtime.warn, self.asker.call.text
        if failed := sum(state.failed for state in self._states):
            meaning = {"count": "they count as no", "avg": "the mean leaves their rows out", "sum": "they add nothing"}[
                self._kind
            ]
            warn(f"{text}: {failed:,} of {self._spent:,} answers failed, and {meaning}")
        self.asker.counters.note(0, 0, steps=self._told())
        missed = [state for state in self._states if state.mean.missed]
        if missed:
            widest = max(self._half(state) for state in missed)
            where = f" in {len(missed):,} of {len(self._states):,} groups" if len(self._states) > 1 else ""
            why = self._refused or "the label budget is spent"
            wanted = f"{self._option('within') * self._range:.4g}"
            warn(f"{text}: the interval is ±{widest:.4g}{where}, not ±{wanted}: {why}")

    def _told(self) -> str:
        """Return what EXPLAIN says: the prompts, and after a run the widest interval."""
        prompts = sum(state.mean.asked for state in self._states)
        if self.asker.is_dry:  # an interval of answers that nobody gave tells nothing
            return f"asks {prompts:,} of {len(self._prompts):,} prompts"
        widest = max(self._half(state) for state in self._states)
        groups = f" in the widest of {len(self._states):,} groups" if len(self._states) > 1 else ""
        return (
            f"asked {prompts:,} of {len(self._prompts):,} prompts; the interval is ±{widest:.4g}{groups},"
            f" at confidence {self._option('confidence'):g}"
        )

    # --- the waves

    def _next(self, states: Sequence[_State], predicted: Predicted) -> list[tuple[_State, Ints]]:
        """Return the units to ask of each group; the label budget is shared by the groups that still ask."""
        open_ = [state for state in states if not state.mean.done]
        budget, wanted = self._option("label_budget"), list[tuple[_State, Ints]]()
        left = math.inf if budget is None else budget - self._spent
        for place, state in enumerate(open_):
            most = left if left == math.inf else left // (len(open_) - place)
            units = state.mean.next_wave(predicted.expected[state.units], predicted.spread[state.units], most)
            left -= len(units)
            if len(units):
                wanted.append((state, units))
        return wanted

    def _take(self, wanted: Sequence[tuple[_State, Ints]], replies: Sequence[Reply]) -> None:
        place = 0
        for state, units in wanted:
            some, place = replies[place : place + len(units)], place + len(units)
            found = np.array([self._unit_value(reply.value) for reply in some])
            state.mean.tell(found)
            state.failed += sum(reply.error is not None for reply in some)
            there = ~np.isnan(found)
            self._taught += (state.first + units[there]).tolist()
            self._values += found[there].tolist()

    @property
    def _taught_units(self) -> Ints:
        return np.array(self._taught, np.int64)

    @property
    def _taught_values(self) -> Floats:
        return np.array(self._values, np.float64)

    def _started(self, salt: str, known: Floats | None) -> list[_State]:
        states, first = [], 0
        for group in self.groups:
            last = first + len(group.prompts)
            own = np.full(len(group.prompts), np.nan) if known is None else known[first:last]
            mean = SampledMean(
                group.weights,
                own,
                chances(group.prompts, salt),
                within=self._option("within"),
                confidence=self._option("confidence"),
                skips=self._kind == "avg",
                fixed_rows=group.without if self._kind == "count" else 0,
            )
            states.append(_State(group, mean, first))
            first = last
        return states

    def _find_known(self, salt: str) -> Floats | None:
        """Return the values that the answer cache has, if the aggregate counts them exactly; else None.

        An earlier run of the call leaves its sample in the cache. A rerun draws the same sample, which costs nothing
        then, so such answers are left to it.
        """
        if self.collects or not self._prompts:
            return None
        found = known_answers(self.asker, self._question, self._prompts)
        values = np.array([np.nan if value is None else self._unit_value(value) for value in found])
        there = ~np.isnan(values)
        if there.sum() <= _FEW_KNOWN * len(values) or self._explained(salt, values) >= _EXPLAINED * there.sum():
            return None
        values = self._as_before(salt, values)
        there = ~np.isnan(values)
        taken = int(there.sum())
        self.asker.counters.add(distinct_prompts=taken, prompts_expected=taken, cache_hits=taken)
        self._taught, self._values = np.flatnonzero(there).tolist(), values[there].tolist()
        return values

    def _as_before(self, salt: str, values: Floats) -> Floats:
        """Return the values that the first run over these prompts counted exactly.

        That run's own sample is in the cache too. A rerun that counted it as well would draw another sample, and buy
        it. So the cache keeps which values the first run counted. They hold as long as all of them are still there.
        """
        there = ~np.isnan(values)
        if there.all():
            return values
        key = _place_of(salt, self._prompts)
        counted = _unpacked(self._binding.cache.peek([key]).get(key), len(values))
        if counted is not None and not (counted & ~there).any():
            return np.where(counted, values, np.nan)
        if not self.asker.is_dry:
            self._binding.cache.put(key, b64encode(zlib.compress(np.packbits(there).tobytes())).decode())
        return values

    def _explained(self, salt: str, values: Floats) -> float:
        """Return how many known answers a rerun uses until it lacks one; infinite if the cache has all of them."""
        if not np.isnan(values).any():
            return 0
        states, used, spent = self._started(salt, None), 0, self._spent
        try:
            while True:
                wanted = self._next(states, self._scores.predicted(self._taught_units, self._taught_values))
                if not wanted:
                    return math.inf
                units = np.concatenate([state.first + units for state, units in wanted])
                lacking = np.isnan(values[units])
                if lacking.any():
                    return used + int((~lacking).sum())
                used += len(units)
                self._spent += len(units)
                self._take(wanted, [Reply(self._option("low") + value * self._range) for value in values[units]])
        finally:
            self._taught, self._values, self._spent = [], [], spent

    # --- values

    def _option(self, name: str) -> Any:
        return self._over.option(name)

    @property
    def _kind(self) -> str:
        return str(self._option("kind"))

    @property
    def _range(self) -> float:
        return float(self._option("high") - self._option("low"))

    def _unit_value(self, value: Any) -> float:
        """Return an answer as a number in [0, 1]; NaN for no answer, which adds 0 to a sum."""
        if value is None and self._kind != "sum":
            return math.nan
        value = value or 0
        return float(min(max((float(value) - self._option("low")) / self._range, 0.0), 1.0))

    def _half(self, state: _State) -> float:
        found = state.mean.estimate()
        if found.value is None or found.low is None or found.high is None:
            return 0.0
        return float(max(found.high - found.value, found.value - found.low) * self._range)

    def _result(self, state: _State, *, final: bool) -> Any:
        found, rows = state.mean.estimate(), state.group.rows
        value, low, high = found.value, found.low, found.high
        if self._kind == "count":
            value, low, high = (0.0 if one is None else one * rows for one in (value, low, high))
            value, low, high = round(value), math.ceil(low - 1e-6), math.floor(high + 1e-6)
            value = min(max(value, low), high)
        elif value is not None and low is not None and high is not None:
            value, low, high = (self._option("low") + one * self._range for one in (value, low, high))
            if self._kind == "sum":
                value, low, high = (one * int(state.group.weights.sum()) for one in (value, low, high))
        if self._refused and not state.mean.asked and state.mean.missed:
            return Failure(self._refused)
        if not self._option("bounds"):
            return value
        told = {
            "value": value,
            "low": low,
            "high": high,
            "rows": rows,
            "asked": state.mean.asked,
            "failed": state.failed,
        }
        return {**told, "final": final} if self._option(STREAM) else told
