"""ai_summarize: a summary of a text."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, Room, Usual, text_answer


def build(call: Arguments) -> Answer:
    """Ask for a summary of bounded length."""
    words = call.integer("max_words")
    answer = text_answer(
        f"Summarize what follows in at most {words} words. Answer with the summary alone.",
        max_tokens=2 * words + 16,
        room=Room(8 * words + 64),  # in some languages, a word is many tokens
        usual=Usual(4, per_byte=0.2, most=words),
    )
    return answer.in_parts(f"Summarize the text in at most {words} words.", reply="Reply with the summary alone.")


FUNCTION = AIFunction(
    name="ai_summarize",
    summary="Summarize a text in at most max_words (50) words.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(Option("max_words", int, 50, low=1, high=10_000),),
    build=build,
)
