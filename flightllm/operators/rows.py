"""What both ways of running a call share: which values of a row are sent, and what its answer becomes."""

from typing import Any, Protocol

from flightllm.ai import AICall
from flightllm.errors import EngineError


class Counters(Protocol):
    """Where a call site's figures go."""

    def add(self, **deltas: int) -> None:
        """Add to the named counters."""


def given_fields(named: list[tuple[str, int, bool]], values: tuple[str | None, ...]) -> list[tuple[str, str]] | None:
    """Return the named values of one row that are not NULL, or None where the row is answered NULL without a call.

    `named` gives for each field its name, its place in `values` and whether it is required.
    """
    fields = [(name, value) for name, at, _ in named if (value := values[at]) is not None]
    if len(fields) < len(named) and (not fields or any(must and values[at] is None for _, at, must in named)):
        return None
    return fields


def read_answer(call: AICall, text: str | None, error: str | None) -> tuple[Any, str | None]:
    """Return the value of an answer and None, or None and what failed: the prompt, or reading its answer."""
    if text is None:
        return None, error or "no answer"
    try:
        return call.parse(text), None
    except ValueError as unparsed:
        return None, str(unparsed)
    except Exception as defect:  # noqa: BLE001 - a function's file may be a user's own; its defects cost no other row
        return None, f"{call.function}'s parse failed with {type(defect).__name__}: {defect}"


def sql_value(call: AICall, value: Any, failure: str | None) -> Any:
    """Return what a row gets for an answer read, or for a failure as `on_error` has it.

    Raises:
        EngineError: it failed and `on_error` is 'fail'.
    """
    if failure is not None and call.on_error == "fail":
        raise EngineError(f"{call.text}: {failure} (on_error => 'null' answers NULL instead)")
    return {"value": value, "error": failure} if call.on_error == "struct" else value
