"""Make vLLM's sampling parameters: once for each call site, because vLLM checks a grammar for 0.8 ms."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from threading import Event
from typing import Any, Final

from flightllm.common.newest import Newest
from flightllm.engines.bounded_schema import bounded
from flightllm.engines.vllm.choices import FirstTokens
from flightllm.llm.engine import Choice, JsonSchema, Parameters, Regex

_LEAST_TOP_P: Final = 1e-6
"""vLLM rejects 0; this value allows only the most probable token, as 0 does."""
_KEPT: Final = 256
"""How many checked parameters are kept, those used last: a few for each of the concurrent queries."""
_MOST_LISTED: Final = 128
"""The most tokens of which vLLM returns the log probabilities by their numbers."""


class SamplingMaker:
    """The maker of sampling parameters; vLLM checks equal ones only once.

    `most_logprobs` is the most log probabilities of a token. Without `decodes`, the caller decodes the tokens of
    answers. Not thread-safe: all calls come from the engine's event loop.
    """

    def __init__(self, most_logprobs: int, *, decodes: bool) -> None:
        self._most_logprobs = most_logprobs
        self._decodes = decodes
        self._kept = Newest[tuple[Parameters, bool], Any](_KEPT)

    def answer(self, parameters: Parameters, max_tokens: int, first: FirstTokens | None = None) -> Any:
        """Return the parameters of one answer; with `first`, this is a single token out of these."""
        key = parameters, first is not None  # the room for tokens differs by prompt, so the key leaves it out
        found = self._kept.use(key)
        if found is None:
            found = self._kept[key] = self._make(parameters, max_tokens, first)
        one = copy(found)
        one.max_tokens = 1 if first is not None else max_tokens
        one.passed = found.passed  # `copy` copies the fields only
        return one

    def _make(self, parameters: Parameters, max_tokens: int, first: FirstTokens | None) -> Any:
        asked = isinstance(parameters.constraint, Choice) and parameters.probability
        if first is not None:
            allowed = list(first.spelled)
            return _checked_once()(
                max_tokens=1,
                allowed_token_ids=allowed,
                logprob_token_ids=allowed if asked else None,
                detokenize=False,
                **_drawing(parameters),
            )
        return _checked_once()(
            max_tokens=max_tokens,
            structured_outputs=_structured(parameters),
            logprobs=self._most_logprobs if asked else None,
            detokenize=self._decodes or asked,  # the listed tokens need their texts
            **_drawing(parameters),
        )


def single_token(found: FirstTokens | None, parameters: Parameters) -> FirstTokens | None:
    """Return the first tokens, unless vLLM cannot return the log probabilities that the call asks for."""
    return None if found is None or (parameters.probability and len(found.spelled) > _MOST_LISTED) else found


def thought_sampling(parameters: Parameters, budget: int, ending: Mapping[str, Any]) -> Any:
    """Return the sampling parameters of a thought: no constraint, and `ending` as the stop condition."""
    from vllm import SamplingParams

    drawing = _drawing(parameters) | {"skip_clone": False}
    return SamplingParams(
        max_tokens=budget, include_stop_str_in_output=True, skip_special_tokens=False, **drawing, **ending
    )


def _drawing(parameters: Parameters) -> dict[str, Any]:
    from vllm.sampling_params import RequestOutputKind

    return {
        "temperature": parameters.temperature,
        "top_p": max(parameters.top_p, _LEAST_TOP_P),
        "seed": parameters.seed,
        "output_kind": RequestOutputKind.FINAL_ONLY,
        "skip_clone": True,  # `answer` copies them for each request
    }


def _structured(parameters: Parameters) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    match parameters.constraint:
        case Choice(options):
            return StructuredOutputsParams(choice=list(options))
        case JsonSchema(schema):
            return StructuredOutputsParams(json=bounded(schema))
        case Regex(pattern):
            return StructuredOutputsParams(regex=pattern)
        case None:
            return None


@cache
def _checked_once() -> Any:
    """Return a class of sampling parameters that vLLM checks once, also where they are copied for many requests."""
    from vllm import SamplingParams

    class CheckedOnce(SamplingParams):  # type: ignore[misc, unused-ignore]
        """Sampling parameters; `passed` tells whether vLLM has checked them, and copies can share it."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self.passed = Event()

        def verify(self, *given: Any, **named: Any) -> None:
            """Check the parameters unless equal ones have passed."""
            if not self.passed.is_set():
                super().verify(*given, **named)
                self.passed.set()

    return CheckedOnce
