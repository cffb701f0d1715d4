"""The model calls of a statement and their price: predicted, or spent."""

import json
import re
from dataclasses import dataclass
from typing import Final

from flightllm.client import Progress
from flightllm.common.amounts import counted, money

_AI: Final = re.compile(r"\b(?:ai_\w+|llm\w*|prompt)\s*\(", re.IGNORECASE)
_REFITS: Final = re.compile(r"\brefit\s*;?\s*$", re.IGNORECASE)


def may_call(sql: str) -> bool:
    """Return whether a text has an AI call by its form, or fits a filter again; other names are not noticed."""
    return _AI.search(sql) is not None or _REFITS.search(sql) is not None


@dataclass(frozen=True, slots=True)
class Cost:
    """The calls of models, the tokens of prompts and answers, and the price in dollars; None where no price is known.

    `cached` answers came from the cache and cost nothing. `spent` is False for a prediction.
    """

    calls: int = 0
    cached: int = 0
    tokens: int = 0
    price: float | None = None
    seconds: float = 0.0
    spent: bool = False

    def __str__(self) -> str:
        parts = [counted(self.calls, "model call")]
        if self.cached:
            parts.append(f"{self.cached:,} from the cache")
        parts.append(counted(self.tokens, "token"))
        if self.price is not None:
            parts.append(money(self.price))
        if self.spent:
            parts.append(f"{self.seconds:,.1f} s")
        return f"{'spent' if self.spent else 'predicted'}: {', '.join(parts)}"


def spent_by(used: Progress) -> Cost:
    """Return the cost of a statement that has run."""
    return Cost(used.asked, used.cached, used.tokens, used.cost, used.seconds, spent=True)


def read_prediction(plan: str) -> Cost | None:
    """Return the cost in the answer of `EXPLAIN (FORMAT JSON)`; None where the statement has no AI call.

    Raises:
        ValueError, KeyError, TypeError: the answer is of a server of another version.
    """
    document = json.loads(plan)
    found = document["total"]["predicted"]
    if found is None:
        return None
    tokens = int(found["prompt_tokens"]) + int(found["completion_tokens"])
    cached = sum(
        int(call["predicted"].get("cache_hits") or 0)
        for operator in document.get("operators", [])
        for call in operator["calls"]
    )
    return Cost(int(found["calls"]), cached, tokens, found["price"], float(found.get("seconds") or 0.0))
