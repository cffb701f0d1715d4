"""ai_cluster: the name of the cluster of similar texts to which a text belongs; for GROUP BY."""

import pyarrow as pa

from flightllm.functions import (
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
    SetAnswer,
    SetQuestion,
    text_answer,
)


def build(call: Arguments) -> Answer:
    """Ask for one name for each cluster, about the texts nearest to its centre."""
    hint = call.text("hint").strip()
    about = f" {hint.rstrip('.')}." if hint else ""
    question = f"The texts below belong to one group. Name what they have in common in one to four words.{about}"
    reply = "Answer with the name alone."
    name = text_answer(f"{question} {reply}", max_tokens=24).in_parts(question, reply=reply)
    over = SetAnswer("cluster", {"name": SetQuestion(name, ("text",))}, (("k", call.integer("k")),), embeds=True)
    return Answer("", pa.string(), str, over=over)


FUNCTION = AIFunction(
    name="ai_cluster",
    summary="Return the name of a text's cluster: k (8) groups of similar vectors, each named by the model.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(Option("k", int, 8, low=1, high=1_000), Option("hint", str, "")),
    build=build,
)
