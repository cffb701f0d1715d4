"""ai_gen: the model's answer to any prompt, as text or, with a schema, as a struct."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, Room, json_answer, text_answer


def build(call: Arguments) -> Answer:
    """Use the prompt as the instruction, unchanged."""
    schema = call.schema("response_format")
    if schema is not None:
        return json_answer(call.prompt, schema)
    # A cut answer is an error, so an open question gets room for a page.
    answer = text_answer(call.prompt, room=Room(1_024))
    return answer.in_parts(call.prompt, reply="Reply with the answer alone.")


FUNCTION = AIFunction(
    name="ai_gen",
    summary="Answer a prompt about the given fields.",
    returns="text; a struct with response_format => a JSON Schema or a list of field names",
    parameters=(Parameter("prompt", Kind.PROMPT),),
    fields=True,
    options=(Option("response_format", tuple),),
    aliases={"llm": None, "ai_complete": ("model", "prompt"), "ai_query": ("model", "prompt")},
    build=build,
)
