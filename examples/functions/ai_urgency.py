"""ai_urgency: how soon somebody must answer a message, from 1 (any time) to 5 (now).

Copy this file to begin a function of your own. The server reads each file of the folders in `[functions]`.
"""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, number_answer


def build(_: Arguments) -> Answer:
    """Ask for a number from 1 to 5; the engine cannot answer anything else."""
    return number_answer(
        "How urgent is the message below? Answer with a number from 1 (any time) to 5 (now).", 1.0, 5.0
    )


FUNCTION = AIFunction(
    name="ai_urgency",
    summary="Rate how soon somebody must answer a message, from 1 to 5.",
    returns="double",
    parameters=(Parameter("message", Kind.FIELD),),
    build=build,
)
