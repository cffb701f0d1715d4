"""The answers of tools: JSON for programs, and Markdown for models."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flightllm.client import Progress
from flightllm.connection.cost import Cost, spent_by

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


def answer(body: str, structured: Mapping[str, Any], used: Progress | None = None, notes: Sequence[str] = ()) -> Answer:
    """Return an answer that ends with its notes and its cost; `used` is the progress of its statement."""
    cost = Cost(spent=True) if used is None else spent_by(used)
    shown = {name: getattr(cost, name) for name in ("calls", "cached", "tokens", "price")}
    lines = [body, *(f"Note: {note}" for note in notes), sentence(cost)]
    answered = {**structured, "notes": list(notes), "cost": shown | {"seconds": round(cost.seconds, 3)}}
    return Answer(answered, "\n\n".join(filter(None, lines)))


def sentence(cost: Cost) -> str:
    """Return a cost as a line of its own."""
    said = str(cost)
    return said[0].upper() + said[1:]


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
