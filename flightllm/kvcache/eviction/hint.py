"""What a request tells the engine of the prompts that follow it, so that its eviction knows what is used again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVICTION: Final = "flightllm_kv_eviction"
"""The key of vLLM's `additional_config` for the name of a policy."""
REUSE_HINT: Final = "flightllm_kv_reuse"
"""The key of `SamplingParams.extra_args` for a `ReuseHint`, as JSON text: HTTP requests take no mapping there."""
_MOST_CHARACTERS: Final = 512
"""A text that is longer is not ours."""


@dataclass(frozen=True, slots=True)
class ReuseHint:
    """Where a prompt comes from, and how much of it later ones have too.

    `site` is the call site. The prompts of a query's pass are numbered by `number`, in the order in which they are
    sent; those that are still to come have the first `ahead` tokens too, and none has what is behind; None: unknown,
    which it is read as where no query is named.
    """

    site: str = ""
    query: str = ""
    number: int = 0
    ahead: int | None = None

    def extra_args(self) -> dict[str, Any]:
        """Return the arguments that go with a request; see `read_hint`."""
        hint = {"site": self.site, "query": self.query, "number": self.number}
        return {REUSE_HINT: json.dumps(hint if self.ahead is None else {**hint, "ahead": self.ahead})}


def read_hint(extra_args: Mapping[str, Any] | None) -> ReuseHint:
    """Return the hint among a request's arguments, which any client may have sent; nothing is known without one."""
    text = extra_args.get(REUSE_HINT) if isinstance(extra_args, Mapping) else None
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        return ReuseHint()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):  # the latter of brackets alone
        return ReuseHint()
    if not isinstance(given, Mapping):
        return ReuseHint()
    site, query = _text(given.get("site")), _text(given.get("query"))
    return ReuseHint(site, query, _whole(given.get("number")) or 0, _whole(given.get("ahead")) if query else None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None
