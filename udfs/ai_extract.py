"""ai_extract: facts from a text as the fields of a struct."""

from flightllm.functions import AICallError, AIFunction, Answer, Arguments, Kind, Parameter, json_answer


def build(call: Arguments) -> Answer:
    """Ask for JSON that follows the schema."""
    schema = call.schema("schema")
    if schema is None:
        raise AICallError("schema must be a JSON Schema text or a list of field names")
    answer = json_answer("Extract these facts from what follows; null for what it does not say.", schema)
    return answer.in_parts("Extract facts from the text. Write null for a fact that the text does not state.")


FUNCTION = AIFunction(
    name="ai_extract",
    summary="Extract facts as a struct, by a JSON Schema text or a list of field names.",
    returns="a struct of the schema's properties",
    parameters=(Parameter("input", Kind.FIELD), Parameter("schema", Kind.SCHEMA)),
    build=build,
)
