"""ai_summarize_agg: a summary of all texts of a group, however many there are."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, Usual, text_answer
from flightllm.functions.aggregated import AGGREGATE_OPTIONS, aggregated


def build(call: Arguments) -> Answer:
    """Ask for a summary of bounded length."""
    words = call.integer("max_words")
    task = f"Summarize the texts in at most {words} words: what most of them say, and what only some of them say."
    return aggregated(call, task, text_answer(task, max_tokens=8 * words + 64, usual=Usual(2 * words)))


FUNCTION = AIFunction(
    name="ai_summarize_agg",
    summary="Summarize all texts of a group in at most max_words (100) words. It is an aggregate, as ai_agg is.",
    returns="text; struct<value, citations> with citations => true or => a key column",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(Option("max_words", int, 100, low=1, high=10_000), *AGGREGATE_OPTIONS),
    build=build,
)
