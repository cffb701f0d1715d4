"""ai_translate: a text in another language."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, Room, Usual, text_answer


def build(call: Arguments) -> Answer:
    """Ask for only the translation; the language can be a code such as 'fr'."""
    instruction = f"Translate what follows into this language: {call.text('lang')}. Answer with the translation alone."
    answer = text_answer(instruction, max_tokens=512, room=Room(64, per_byte=2.0), usual=Usual(2, per_byte=0.3))
    question = f"Translate the text into this language: {call.text('lang')}."
    return answer.in_parts(question, reply="Reply with the translation alone.")


FUNCTION = AIFunction(
    name="ai_translate",
    summary="Translate a text into a language, given by name or code.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD), Parameter("lang", Kind.TEXT)),
    build=build,
)
