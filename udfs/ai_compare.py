"""ai_compare: which of two values fits a question better: 'first', 'second' or 'tie'."""

from flightllm.functions import AICallError, AIFunction, Answer, Arguments, Kind, Option, Parameter
from flightllm.functions.ranking import comparison, in_both_orders


def build(call: Arguments) -> Answer:
    """Constrain the answer to three words; in both orders, the two answers must agree."""
    first, second = call.fields[-2:]
    if not call.flag("both_orders"):
        return comparison(call.prompt, first, second)
    if call.values.get("examples"):
        raise AICallError("examples show one order of the two values: leave out examples or both_orders => true")
    return in_both_orders(call.prompt, call.fields)


FUNCTION = AIFunction(
    name="ai_compare",
    summary="Tell which of two values fits a question such as 'which is more urgent?'.",
    returns="text: first, second or tie",
    parameters=(Parameter("question", Kind.PROMPT), Parameter("first", Kind.FIELD), Parameter("second", Kind.FIELD)),
    options=(Option("both_orders", bool, default=False),),
    build=build,
)
