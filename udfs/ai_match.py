"""ai_match: whether two texts are about the same thing, for WHERE and JOIN … ON."""

from flightllm.functions import CALIBRATE, CONFIDENCE, QUALITY, AIFunction, Answer, Arguments, Kind, Parameter
from flightllm.functions.same_entity import same_entity


def build(_: Arguments) -> Answer:
    """Ask the question that ai_dedup asks about each pair."""
    return same_entity()


FUNCTION = AIFunction(
    name="ai_match",
    summary="Return whether two texts are about the same real thing, such as one company in two spellings.",
    returns="boolean; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("a", Kind.FIELD), Parameter("b", Kind.FIELD)),
    options=(CONFIDENCE, CALIBRATE, *QUALITY),
    build=build,
)
