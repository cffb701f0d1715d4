"""The answers of tools: JSON for programs, and Markdown for models."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flightllm.client import Progress
from flightllm.common.amounts import counted, money

COST_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "The use of the model by this call. The price is null where the model has no price.",
    "properties": {
        "calls": {"type": "integer"},
        "cached": {"type": "integer"},
        "tokens": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "seconds": {"type": "number"},
    },
    "required": ["calls", "cached", "tokens", "price", "seconds"],
}
NOTES_SCHEMA: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: a JSON object that fits the tool's output schema, and a text with the same content."""

    structured: Mapping[str, Any]
    text: str


def answer(
    body: str, structured: Mapping[str, Any], progress: Iterable[Progress | None] = (), notes: Sequence[str] = ()
) -> Answer:
    """Return an answer that ends with its notes and its cost; `progress` is that of each of its statements."""
    cost = _cost([one for one in progress if one is not None])
    lines = [body, *(f"Note: {note}" for note in notes), f"Cost: {_cost_line(cost)}"]
    return Answer({**structured, "notes": list(notes), "cost": cost}, "\n\n".join(filter(None, lines)))


def _cost(parts: Sequence[Progress]) -> dict[str, Any]:
    """Return the sum of what several statements used."""
    prices = [one.cost for one in parts if one.cost is not None]
    return {
        "calls": sum(one.asked for one in parts),
        "cached": sum(one.cached for one in parts),
        "tokens": sum(one.tokens for one in parts),
        "price": sum(prices) if prices else None,
        "seconds": round(sum(one.seconds for one in parts), 3),
    }


def _cost_line(cost: Mapping[str, Any]) -> str:
    seconds = f"{cost['seconds']:,.2f} s"
    if not cost["calls"] and not cost["cached"]:
        return f"no model calls, {seconds}"
    calls = f"{counted(cost['calls'], 'model call')}, {counted(cost['cached'], 'answer')} from the cache"
    price = "no known price" if cost["price"] is None else money(cost["price"])
    return f"{calls}, {counted(cost['tokens'], 'token')}, {price}, {seconds}"


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of JSON values as a Markdown table; NULL is an empty cell, and an empty text is `""`."""
    lines = [_line(names), _line(["---"] * len(names)), *(_line(row) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text:
        return '""'
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r\n", "<br>").replace("\n", "<br>")
