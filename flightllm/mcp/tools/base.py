"""The parts of a tool: a name, schemas of its arguments and its answer, and a function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flightllm.mcp.answers import COST_SCHEMA, NOTES_SCHEMA, Answer
from flightllm.mcp.limits import Limits
from flightllm.mcp.work import Work

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` gets arguments that fit `properties`; it raises `FlightLLMError` for the agent to read."""

    name: str
    title: str
    description: Callable[[Limits], str]
    properties: Callable[[Limits], Mapping[str, Any]]
    """The JSON Schemas of the arguments."""
    required: tuple[str, ...]
    answers: Mapping[str, Any]
    """The JSON Schemas of the parts of the answer, besides `notes` and `cost`."""
    run: Callable[[Work, Arguments], Answer]
    asks_model: bool = False
    """Whether a call can reach a model, which can be a service on the internet."""
    changes: bool = False
    """Whether a call can change something where `Limits.changes` allows it."""

    def input_schema(self, limits: Limits) -> dict[str, Any]:
        """Return the schema of all arguments; unknown arguments are errors, so that no typing mistake is ignored."""
        return {
            "type": "object",
            "properties": dict(self.properties(limits)),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def output_schema(self) -> dict[str, Any]:
        """Return the schema of the answer."""
        parts = {**self.answers, "notes": NOTES_SCHEMA, "cost": COST_SCHEMA}
        return {"type": "object", "properties": parts, "required": list(parts)}


def text(description: str) -> dict[str, Any]:
    """Return the schema of a text that is not empty."""
    return {"type": "string", "minLength": 1, "description": description}


def number(description: str, least: int, most: int, default: int) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "default": default, "description": description}
