"""Which arguments of AI calls are lists; only DataFusion knows the types of expressions."""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
from datafusion import SessionContext, udf

from flightllm.errors import AICallError
from flightllm.functions.call import MODEL, AICall

_NOTHING_FITS = pa.map_(pa.int8(), pa.int8())
"""A type that DataFusion casts nothing to, so that its error names the types of the arguments."""
_CALL, _GIVEN, _WANTED = "a call to '", "' function: coercion from ", " to the signature Exact("
_LIST = re.compile(r"(?:Large|FixedSize)?List(?:View)?\((.*)\)$")
_NESTED = re.compile(r"(?:non-null )?(?:\w*List\w*|Struct|Map)\(")


def list_arguments(
    context: SessionContext, plan: Callable[[], object], calls: Mapping[str, AICall]
) -> Mapping[str, frozenset[int]]:
    """Return, by stub, the positions of arguments that are lists; stubs without lists are left out.

    `plan` plans the query in `context`. It runs once for each call that takes texts, each time with one call's types
    still unknown, and reads the types from DataFusion's error. Where it fails for another reason, the real planning
    fails as well.

    Raises:
        AICallError: the elements are structs or lists themselves, or a call that is not answered by a language model
            has a list.
    """
    unknown = {stub: call for stub, call in calls.items() if call.takes == pa.string() and call.fields}
    for stub, call in calls.items():
        _register(context, stub, call, _NOTHING_FITS if stub in unknown else call.takes)
    found: dict[str, frozenset[int]] = {}
    while unknown:
        given = _given(plan)
        if given is None or given[0] not in unknown:
            return found
        stub, types = given
        call = unknown.pop(stub)
        _register(context, stub, call, call.takes)
        if lists := frozenset(place for place, type_ in enumerate(types) if _is_list(type_, call, place)):
            if call.backend != MODEL:
                raise AICallError(
                    f"{call.text}: {call.fields[min(lists)]} is a list, but must be a text; only an index over a column"
                    " of vectors can be searched with a list of numbers"
                )
            found[stub] = lists
    return found


def _register(context: SessionContext, stub: str, call: AICall, type_: pa.DataType) -> None:
    context.register_udf(udf(_never, [type_] * max(1, len(call.fields)), call.type, "volatile", stub))


def _never(*_: pa.Array) -> pa.Array:
    raise AssertionError("a query was run that was planned only for its types")


def _given(plan: Callable[[], object]) -> tuple[str, list[str]] | None:
    """Return the function whose arguments have other types than declared, and these types."""
    try:
        plan()
    except Exception as error:  # noqa: BLE001 - the boundary to DataFusion, which raises builtin exceptions
        before, given, after = str(error).partition(_GIVEN)
        types, wanted, _ = after.partition(_WANTED)
        if given and wanted:
            return before.rpartition(_CALL)[2], _split(types)
    return None


def _split(types: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    parts, start, depth, quoted = [], 0, 0, False
    for place, character in enumerate(types):
        quoted ^= character == '"'
        if not quoted:
            depth += (character == "(") - (character == ")")
            if character == "," and not depth:
                parts.append(types[start:place].strip())
                start = place + 1
    return [*parts, types[start:].strip()]


def _is_list(type_: str, call: AICall, place: int) -> bool:
    match = _LIST.match(type_)
    if match and _NESTED.match(match[1]):
        raise AICallError(
            f"{call.text}: {call.fields[place]} is a list of {match[1].split('(')[0].lower()}s; pass a list of texts,"
            " such as array_agg(column), or vector_search(…, returning => 'column')"
        )
    return match is not None
