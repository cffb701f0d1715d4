"""Compare two values in both orders: `ai_compare(…, both_orders => true)`."""

from collections.abc import Sequence
from typing import Any, Final

from flightllm.errors import InternalError
from flightllm.functions.ranking import FIRST, PAIR, SECOND, TIE
from flightllm.operators.sets.asker import Asker, Reply
from flightllm.operators.sets.base import Failure, SetValues

_TURNED: Final = {FIRST: SECOND, SECOND: FIRST, TIE: TIE}


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return for each pair of values which one fits better in both orders; a tie if the orders disagree."""
    if asker.call.over is None:
        raise InternalError(f"{asker.call.text} is not over a set")
    given = list(values.tuples)
    turned = [(second, first) for first, second in given]
    replies = asker.ask(asker.call.over.questions[PAIR], [*given, *turned])
    return [_agreed(one, other) for one, other in zip(replies[: len(given)], replies[len(given) :], strict=True)]


def _agreed(one: Reply, other: Reply) -> Any:
    for reply in (one, other):
        if reply.error is not None:
            return Failure(reply.error)
        if reply.value is None:
            return None
    return one.value if one.value == _TURNED[other.value] else TIE
