"""ai_count_tokens: the length of a text in the model's tokens, without a call of the model."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction


def bind(engine: Engine) -> Callable[[pa.Array], pa.Array]:
    """Count with the engine's tokenizer, once for each distinct text."""

    def count(texts: pa.Array) -> pa.Array:
        encoded = texts.dictionary_encode()
        counts = [None if text is None else engine.count_tokens(text) for text in encoded.dictionary.to_pylist()]
        return pa.array(counts, type=pa.int64()).take(encoded.indices)

    return count


FUNCTION = ScalarFunction(
    name="ai_count_tokens",
    summary="Count the tokens of a text under the server's model.",
    returns="bigint",
    arguments=(pa.string(),),
    output=pa.int64(),
    bind=bind,
)
