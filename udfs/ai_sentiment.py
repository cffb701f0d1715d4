"""ai_sentiment: the mood of a text."""

from flightllm.functions import (
    CALIBRATE,
    CONFIDENCE,
    QUALITY,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Parameter,
    choice_answer,
)


def build(_: Arguments) -> Answer:
    """Constrain the answer to four moods."""
    moods = ("positive", "negative", "neutral", "mixed")
    answer = choice_answer(f"What is the sentiment of what follows? Answer with one of: {', '.join(moods)}", moods)
    reply = f"Answer with one word: {', '.join(moods[:-1])} or {moods[-1]}."
    return answer.in_parts("What is the sentiment of the text?", reply=reply)


FUNCTION = AIFunction(
    name="ai_sentiment",
    summary="Tell the sentiment of a text.",
    returns="text: positive, negative, neutral or mixed; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(CONFIDENCE, CALIBRATE, *QUALITY),
    build=build,
)
