"""Values bound to a prepared statement: each binding has a handle of its own."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.flight.bound_values import BoundValues
from flightllm.flight.registry import Registry
from flightllm.flight.statements import Prepared

_MOST = 64
"""Bindings kept of one prepared statement: a client that binds in a loop need not close any of them."""


def bind(prepared: Registry[Prepared], bound: BoundValues, statement: Prepared, values: pa.Table | None) -> bytes:
    """Keep values for a prepared statement; return a handle for the statement with just these.

    Connections that share a handle so read no values of each other. The handle given stays: a client that does not look
    at the one returned gets the values bound last. Of one statement the oldest bindings go where there are many.

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
    """Return what is to be done with a prepared statement that was closed: its values and bindings go too."""

    def dropped(statement: Prepared) -> None:
        bound.forget(statement)
        statement.lose()
        if statement.origin is None and statement.description.plan is not None:
            statement.description.plan.drop()
        for handle in statement.unbind():
            remove(handle)

    return dropped
