"""ai_mask: a text with [MASKED] in place of the content that the labels describe."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, Room, Usual, text_answer


def build(call: Arguments) -> Answer:
    """Ask for the text with the replacements."""
    meanings = call.meanings("labels")
    kinds = (f"{label} ({meanings[label]})" if meanings.get(label) else label for label in call.labels("labels"))
    labels = ", ".join(kinds)
    instruction = (
        f"Copy what follows, but write [MASKED] in place of every mention of these kinds: {labels}. "
        "Answer with the text alone."
    )
    answer = text_answer(instruction, max_tokens=512, room=Room(64, per_byte=1.0), usual=Usual(2, per_byte=0.24))
    question = f"Copy the text. Replace every mention of these kinds with [MASKED]: {labels}. Change nothing else."
    return answer.in_parts(question, reply="Reply with the masked text alone.")


FUNCTION = AIFunction(
    name="ai_mask",
    summary="Replace the kinds of content that the labels name, such as ['person', 'email'], by [MASKED].",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD), Parameter("labels", Kind.LABELS)),
    build=build,
)
