"""Keep and remove the labels that users of the page give to answers, by the statements that SQL has for it."""

from typing import Any, Final

import pyarrow as pa

from flightllm.errors import InvalidInputError, NotFoundError
from flightllm.flight.core import Core
from flightllm.flight.updates import run_update
from flightllm.functions import FunctionRegistry
from flightllm.system_tables.labels import GIVEN, LabelStore, label_of
from flightllm.web.calls import WebCall
from flightllm.web.values import Values

_PUT: Final = (
    f"INSERT INTO system.labels ({', '.join(GIVEN)}) VALUES ({', '.join(f'${at + 1}' for at in range(len(GIVEN)))})"
)
_REMOVE: Final = "DELETE FROM system.labels WHERE label_id = $1"


def label_values(values: Values) -> dict[str, str | None]:
    """Return the values of a request for a label, by the columns of `system.labels`.

    `options` guards against slips only: it is the page's own list of the call's options. A request without it, as SQL,
    gives any label.

    Raises:
        InvalidInputError: a value has a wrong type, or the label is not among the `options` of the call.
    """
    given = {name: values.optional_text(name) for name in GIVEN if name != "fields"}
    label, options = given["label"], values.texts("options", [])
    if options and label is not None and not _is_among(label, [one for one in options if one is not None]):
        raise InvalidInputError(
            f"{label[:40]!r} is not an answer of this call: choose one of {', '.join(map(str, options))}"
        )
    return {**given, "fields": values.object_text("fields")}


def _is_among(label: str, options: list[str]) -> bool:
    """Return whether a label is one of the options, or a number in their range."""
    if label in options:
        return True
    try:
        numbers = [float(one) for one in options]
        return min(numbers) <= float(label) <= max(numbers)
    except ValueError:
        return False


def put_label(
    core: Core, labels: LabelStore, functions: FunctionRegistry, call: WebCall, given: dict[str, str | None]
) -> dict[str, Any]:
    """Keep a label; return it as `label`, and as `previous` the user's label that it replaces, or None.

    Raises:
        FlightLLMError: the label is wrong, or the user cannot label.
    """
    function = functions.get(given["function"] or "")
    # SQL keeps the label under the function's own name, and the label's id follows from that.
    label = label_of(given if function is None else {**given, "function": function.name}, call.principal.name)
    previous = labels.get(label.label_id)
    _change(core, call, _PUT, [given[name] for name in GIVEN])
    kept = labels.get(label.label_id) or label
    return {"label": {**kept.shown(), "own": True}, "previous": None if previous is None else previous.shown()}


def remove_label(core: Core, call: WebCall, label_id: str) -> dict[str, Any]:
    """Remove a label.

    Raises:
        NotFoundError: the user can see no label with this id.
        FlightLLMError: the user cannot change labels.
    """
    if not _change(core, call, _REMOVE, [label_id]):
        raise NotFoundError(f"you have no label {label_id[:40]!r}: see system.labels")
    return {}


def _change(core: Core, call: WebCall, sql: str, values: list[str | None]) -> int:
    core.refuse_when_draining()
    columns = [pa.array([value], pa.string()) for value in values]
    return run_update(core, call, call.session(core), sql, pa.table(columns, [str(at) for at in range(len(values))]))
