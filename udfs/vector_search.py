"""vector_search: the rows of a vector index that match a text or vector best."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, search_answer


def build(call: Arguments) -> Answer:
    """Search the index in the given mode."""
    mode = call.text("mode")
    return search_answer(call.index("index"), call.integer("top_k"), mode, call.text("filter"), call.text("returning"))


FUNCTION = AIFunction(
    name="vector_search",
    summary="The rows of a vector index nearest to a text or vector, by meaning, words or both.",
    returns="list of struct: the index's columns, and score; list of one column's values with returning",
    parameters=(Parameter("index", Kind.INDEX), Parameter("query", Kind.FIELD)),
    options=(
        Option("top_k", int, 3, low=1, high=10_000),
        Option("mode", str, "vector", choices=("vector", "text", "hybrid")),
        Option("filter", str, ""),
        Option("returning", str, ""),
    ),
    build=build,
    backend="search",
)
