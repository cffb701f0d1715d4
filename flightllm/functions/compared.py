"""Turn an AI call and a comparison of its answer with constants into one call that answers true or false.

ai_score('How urgent?', t, recall => 0.95) >= 7  →  a boolean call, whose options 7 to 10 are true

A proxy then decides rows by one probability, the sum over the options for which the comparison holds. The prompts, and
so the cached answers of the call's own model, stay the same.
"""

from dataclasses import replace

import pyarrow as pa

from flightllm.functions.call import AICall, name_stub
from flightllm.functions.comparison import Comparison
from flightllm.llm.engine import Choice


def compared(call: AICall, comparison: Comparison) -> AICall:
    """Return the boolean call whose answer is whether the comparison holds for the call's answer.

    The promise is left out where all options decide alike, because a proxy then has nothing to tell.
    """

    def parse(text: str) -> bool | None:
        value = call.parse(text)
        return None if value is None else comparison.holds(value)

    promise = call.promise
    constraint = call.parameters.constraint
    if isinstance(constraint, Choice) and len({parse(option) for option in constraint.options}) < 2:
        promise = None
    changed = replace(
        call,
        output=pa.bool_(),
        parse=parse,
        reading=f"{call.reading} {comparison.text}".lstrip(),
        text=comparison.about(call.text),
        promise=promise,
        before=(call, comparison),
    )
    return name_stub(changed)
