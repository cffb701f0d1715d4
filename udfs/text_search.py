"""text_search: the rows of a vector index that share words with a text."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, search_answer


def build(call: Arguments) -> Answer:
    """Search the index for rows with the words."""
    returning = call.text("returning")
    return search_answer(call.index("index"), call.integer("top_k"), "text", call.text("filter"), returning)


FUNCTION = AIFunction(
    name="text_search",
    summary="The rows of a vector index that share words with a text, scored by BM25.",
    returns="list of struct: the index's columns, and score; list of one column's values with returning",
    parameters=(Parameter("index", Kind.INDEX), Parameter("query", Kind.FIELD)),
    options=(Option("top_k", int, 3, low=1, high=10_000), Option("filter", str, ""), Option("returning", str, "")),
    build=build,
    backend="search",
)
