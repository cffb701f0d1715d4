"""The scores of an approximate aggregate's proxy: they make the interval narrow, and cannot make it wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.functions.approximate import ASK, PROXY
from flightllm.functions.call import EMBEDDING, AICall
from flightllm.functions.scoring import values_of
from flightllm.operators.embedding_proxy import embedding_call
from flightllm.operators.sets.asker import Asker, Reply, Texts
from flightllm.operators.sets.sampled_groups import chances
from flightllm.quality.bins import Floats, Ints
from flightllm.quality.prediction import Predicted, predict
from flightllm.quality.vector_scores import vector_scores

_AT_ONCE: Final = 16_384


class Scores(Protocol):
    """Predicts the values of all units."""

    def predicted(self, taught: Ints, values: Floats) -> Predicted:
        """Return predictions, given the values in [0, 1] of the units `taught`."""

    def replies(self, units: Ints, found: Sequence[Reply]) -> Sequence[Reply]:
        """Return the replies about units; a dry run replaces some of them by likelier ones."""


def scores_of(asker: Asker, prompts: Sequence[Texts]) -> Scores:
    """Ask the proxy of a call about all units, if the call has a proxy.

    Raises:
        EngineError: the proxy is gone.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    over = asker.call.over
    if over is None or not prompts or not (over.embeds or PROXY in over.questions):
        return _Given(asker, np.full(len(prompts), np.nan))
    found = _embedded(asker, prompts) if over.embeds else _Given(asker, _asked(asker, over.questions[PROXY], prompts))
    return _Foreseen(asker, prompts) if asker.is_dry else found


@dataclass(frozen=True, slots=True)
class _Given:
    """Scores that each unit has from the start; NaN where a unit has no score."""

    asker: Asker
    scores: Floats

    def predicted(self, taught: Ints, values: Floats) -> Predicted:
        return predict(self.scores, taught, values, yes_or_no=_is_yes_or_no(self.asker))

    def replies(self, units: Ints, found: Sequence[Reply]) -> Sequence[Reply]:
        del units
        return found


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Scores that follow from vectors and answers."""

    asker: Asker
    vectors: NDArray[np.float16]

    def predicted(self, taught: Ints, values: Floats) -> Predicted:
        scores = vector_scores(self.vectors, taught, values)
        return predict(scores, taught, values, yes_or_no=_is_yes_or_no(self.asker))

    def replies(self, units: Ints, found: Sequence[Reply]) -> Sequence[Reply]:
        del units
        return found


class _Foreseen:
    """The assumption of a dry run: predicted answers agree with a proxy as often as those of a useful one do.

    The scores of yes are spread as Beta(0.4, 0.4), where a proxy has the error 0.11 of answers that err by 0.25.
    """

    def __init__(self, asker: Asker, prompts: Sequence[Texts]) -> None:
        self._asker = asker
        self._draws = chances(prompts, "answers of a dry run")
        rng = np.random.default_rng(0)
        self._scores = rng.beta(0.4, 0.4, len(prompts))

    def predicted(self, taught: Ints, values: Floats) -> Predicted:
        return predict(self._scores, taught, values, yes_or_no=_is_yes_or_no(self._asker))

    def replies(self, units: Ints, found: Sequence[Reply]) -> Sequence[Reply]:
        del found
        if _is_yes_or_no(self._asker):
            return [Reply(bool(self._draws[u] < self._scores[u])) for u in units.tolist()]
        over = self._asker.call.over
        low, high = (0.0, 1.0) if over is None else (over.option("low"), over.option("high"))
        likely = np.clip(self._scores[units] + 0.2 * (self._draws[units] - 0.5), 0.0, 1.0)
        return [Reply(low + one * (high - low)) for one in likely.tolist()]


def _is_yes_or_no(asker: Asker) -> bool:
    over = asker.call.over
    return over is not None and pa.types.is_boolean(over.questions[ASK].output)


def _asked(asker: Asker, question: AICall, prompts: Sequence[Texts]) -> Floats:
    """Return the proxy's scores: the probability of yes, or the number as a share of its range."""
    own = _beside(asker, question, question.binding, len(prompts))
    found: list[Any] = []
    for first in range(0, len(prompts), _AT_ONCE):
        found += [reply.value for reply in own.ask(question, prompts[first : first + _AT_ONCE])]
    over = asker.call.over
    if over is None:
        return np.full(len(prompts), np.nan)
    if pa.types.is_list(question.output):
        yes = values_of(over.questions[ASK]).index(True)
        return np.array([value[yes] if value else np.nan for value in found])
    low, high = over.option("low"), over.option("high")
    return np.array([np.nan if value is None else (value - low) / (high - low) for value in found]).clip(0.0, 1.0)


def _embedded(asker: Asker, prompts: Sequence[Texts]) -> _Vectors:
    own = _beside(asker, embedding_call(asker.call), EMBEDDING, len(prompts))
    fields = asker.call.fields
    parts = []
    for first in range(0, len(prompts), _AT_ONCE):
        texts = [_as_text(fields, values) for values in prompts[first : first + _AT_ONCE]]
        parts.append(own.embed(texts).astype(np.float16))
    width = max(part.shape[1] for part in parts)
    return _Vectors(
        asker,
        np.concatenate(
            [part if part.shape[1] == width else np.zeros((len(part), width), np.float16) for part in parts]
        ),
    )


def _beside(asker: Asker, call: AICall, binding: str, units: int) -> Asker:
    """Return an asker whose figures are those of the proxy."""
    counters = asker.runtime.proxy_counters(asker.counters.operator, call, binding)
    counters.note(units, units)
    return Asker(asker.call, asker.runtime, counters)


def _as_text(fields: Sequence[str], values: Texts) -> str:
    """Return the text that is embedded for a row, as the other proxies embed it."""
    if len(fields) == 1:
        return values[0] or ""
    return "\n".join(f"{name}: {value}" for name, value in zip(fields, values, strict=True) if value is not None)
