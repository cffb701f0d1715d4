"""The hint of a request about later prompts, from which eviction learns which blocks will be used again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVICTION: Final = "flightllm_kv_eviction"
"""The key of vLLM's `additional_config` for the name of a policy."""
MEMORY: Final = "flightllm_kv_eviction_memory"
"""The key of vLLM's `additional_config` for the path of a file in which the policy keeps what it learned."""
REUSE_HINT: Final = "flightllm_kv_reuse"
"""The key of `SamplingParams.extra_args` for a `ReuseHint`, as JSON text: HTTP requests do not accept a mapping
there."""
_MOST_CHARACTERS: Final = 512
"""The longest hint; a longer text does not come from FlightLLM."""


@dataclass(frozen=True, slots=True)
class ReuseHint:
    """The origin of a prompt, and the part of it that later prompts share.

    `site` is the call site. `number` counts the prompts of a query's pass, in the order in which they are sent. Later
    prompts share the first `ahead` tokens and no tokens after them. None means unknown; without a query, `ahead` is
    read as None.
    """

    site: str = ""
    query: str = ""
    number: int = 0
    ahead: int | None = None

    def extra_args(self) -> dict[str, Any]:
        """Return the extra arguments of a request that carry the hint; see `read_hint`."""
        hint = {"site": self.site, "query": self.query, "number": self.number}
        return {REUSE_HINT: json.dumps(hint if self.ahead is None else {**hint, "ahead": self.ahead})}


def read_hint(extra_args: Mapping[str, Any] | None) -> ReuseHint:
    """Return the hint from a request's arguments, or an empty hint. Any client can send any text, so it is checked."""
    text = extra_args.get(REUSE_HINT) if isinstance(extra_args, Mapping) else None
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        return ReuseHint()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: deeply nested brackets
        return ReuseHint()
    if not isinstance(given, Mapping):
        return ReuseHint()
    site, query = _text(given.get("site")), _text(given.get("query"))
    return ReuseHint(site, query, _whole(given.get("number")) or 0, _whole(given.get("ahead")) if query else None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None
