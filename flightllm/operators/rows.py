"""What both ways of running a call share: which values of a row are sent, and what its answer becomes."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from flightllm.ai import ELEMENT_END, AICall
from flightllm.errors import EngineError

Named: TypeAlias = tuple[str, int, bool, bool]
"""A field's name and place in a tuple, whether it must be given, and whether its value is a list."""


class Counters(Protocol):
    """Where a call site's figures go."""

    def add(self, **deltas: int) -> None:
        """Add to the named counters."""


def given_fields(named: Sequence[Named], values: tuple[str | None, ...]) -> list[tuple[str, str]] | None:
    """Return the named values of one row that are not NULL, or None where the row is answered NULL without a call.

    The elements of a list become fields of the same name.
    """
    given = [(name, value, many) for name, at, _, many in named if (value := values[at]) is not None]
    if len(given) < len(named) and (not given or any(must and values[at] is None for _, at, must, _ in named)):
        return None
    return [(name, one) for name, value, many in given for one in (value.split(ELEMENT_END) if many else (value,))]


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
