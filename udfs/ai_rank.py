"""ai_rank: the place of a row in an order by a criterion; a smaller number ranks first.

The pointwise method asks about each row by itself. The other methods compare the texts with one another.
"""

from flightllm.functions import (
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
)
from flightllm.functions.ranking import over_set, pointwise

_POINTWISE = "pointwise"
_METHODS = (_POINTWISE, "listwise", "pairwise")


def build(call: Arguments) -> Answer:
    """Ask for a number from 0 to 100 about each row, or compare the rows with one another."""
    if not call.fields:
        raise AICallError("it needs the values to rank: write ai_rank('most urgent first', column)")
    method, top = call.text("method"), call.values.get("top")
    if method == _POINTWISE:
        if top is not None:
            raise AICallError(
                "top => has no effect with method => 'pointwise', which asks about each row: write ORDER BY … LIMIT"
            )
        return pointwise(call.prompt, expected=not call.number("temperature"))
    if call.values.get("examples"):
        raise AICallError(
            f"examples show answers about one row, and method => '{method}' compares rows: leave them out"
        )
    if call.flag("fresh"):
        raise AICallError(f"fresh => true asks about each row by itself: leave it out with method => '{method}'")
    if call.number("temperature"):
        raise AICallError(f"method => '{method}' needs repeatable answers: leave out temperature")
    window = call.integer("window") if method == "listwise" else 2
    return over_set(call.prompt, call.fields, window, top if isinstance(top, int) else None)


FUNCTION = AIFunction(
    name="ai_rank",
    summary="Give the place of a row in an order, such as 'most urgent first': ORDER BY it without DESC.",
    returns="double; a smaller number ranks first",
    parameters=(Parameter("criterion", Kind.PROMPT),),
    fields=True,
    options=(
        Option("method", str, _POINTWISE, choices=_METHODS),
        Option("top", int, low=1),
        Option("window", int, 10, low=3, high=50),
    ),
    build=build,
)
