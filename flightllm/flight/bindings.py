"""Values bound to a prepared statement: each binding has its own handle."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.flight.bound_values import BoundValues
from flightllm.flight.registry import Registry
from flightllm.flight.statements import Prepared

_MOST = 64
"""The number of bindings kept per prepared statement, so that a client can bind in a loop and close no binding."""


def bind(prepared: Registry[Prepared], bound: BoundValues, statement: Prepared, values: pa.Table | None) -> bytes:
    """Keep values for a prepared statement; return a handle for the statement with these values.

    So connections that share a handle do not read each other's values. The original handle stays valid: a client that
    ignores the returned handle gets the values bound last. Beyond `_MOST` bindings of a statement, the oldest are
    dropped.

    Raises:
    BusyError: there is no room for the values.
    """
    origin = statement.origin or statement
    binding = Prepared(origin.session, origin.text, origin.description, origin=origin)
    handle = prepared.add(binding)
    try:
        dropped = bound.bind(handle, binding, values)
    except BaseException:
        prepared.remove(handle)
        raise
    for other in [*dropped, *origin.bound_as(handle, binding, _MOST)]:
        prepared.remove(other)
    return handle


def forget(bound: BoundValues, remove: Callable[[bytes], object]) -> Callable[[Prepared], None]:
    """Return the callback for closed prepared statements: it drops their values and bindings too."""

    def dropped(statement: Prepared) -> None:
        bound.forget(statement)
        statement.lose()
        if statement.origin is None and statement.description.plan is not None:
            statement.description.plan.drop()
        for handle in statement.unbind():
            remove(handle)

    return dropped
