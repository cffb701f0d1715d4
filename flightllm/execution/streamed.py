"""Check that a query can return the rows of an approximate aggregate with `stream => true`, which come many times."""

from collections.abc import Collection

from flightllm.errors import InvalidInputError
from flightllm.functions.approximate import STREAM
from flightllm.functions.call import AICall
from flightllm.plan.stages import Operator, Relational


def check_streams(stage: Relational, calls: Collection[AICall], *, stores: bool) -> None:
    """Check that nothing but the client reads rows that are not final; `stores` says that the rows are stored.

    Raises:
        InvalidInputError: a sort, a limit, a join or another call would read such rows, or a table would keep them.
    """
    call = next((call for call in calls if call.over is not None and dict(call.over.options).get(STREAM)), None)
    if call is None:
        return
    if stores:
        raise InvalidInputError(
            f"{call.text}: stream => true returns rows that are not final, and this statement stores them: leave it out"
        )
    operator = stage.inputs[0] if stage.whole and len(stage.inputs) == 1 else None
    if not isinstance(operator, Operator) or len(operator.calls) != 1 or operator.ordered or len(calls) != 1:
        raise InvalidInputError(
            f"{call.text}: stream => true works where the query returns this aggregate and its groups only: leave out"
            " ORDER BY, LIMIT, HAVING, DISTINCT, joins above it and other AI calls, or leave out stream => true"
        )
