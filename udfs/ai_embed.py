"""ai_embed: the vector of a text under the server's embedding model."""

import pyarrow as pa

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, vector_of


def build(call: Arguments) -> Answer:
    """Use the text's role in a search as the instruction; the embedding model needs no other instruction."""
    return Answer(call.text("role"), pa.list_(pa.float32()), vector_of)


FUNCTION = AIFunction(
    name="ai_embed",
    summary="The vector of a text; texts with similar meanings have vectors near each other.",
    returns="list of float",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(Option("role", str, "document", choices=("document", "query")),),
    build=build,
    backend="embedding",
)
