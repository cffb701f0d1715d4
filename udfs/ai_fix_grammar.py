"""ai_fix_grammar: a text with its grammar and spelling corrected."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, Room, Usual, text_answer


def build(_: Arguments) -> Answer:
    """Ask for only the corrected text."""
    instruction = "Correct grammar and spelling of what follows and change nothing else. Answer with the text alone."
    answer = text_answer(instruction, max_tokens=512, room=Room(64, per_byte=1.0), usual=Usual(2, per_byte=0.24))
    question = "Correct the grammar and spelling of the text. Change nothing else."
    return answer.in_parts(question, reply="Reply with the corrected text alone.")


FUNCTION = AIFunction(
    name="ai_fix_grammar",
    summary="Correct the grammar and spelling of a text.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    build=build,
)
