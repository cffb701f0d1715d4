"""Rewrite vendors' embeddings and similarities: the server's own model answers, whichever model a call names."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value, members
from flightllm.dialect.vendors.pieces import around

EMBEDDED: Mapping[str, int] = MappingProxyType(
    {
        "ai.embed": 0,
        **dict.fromkeys(("ai_embed", "cortex.embed_text", "cortex.embed_text_768", "cortex.embed_text_1024"), 1),
        **dict.fromkeys(("ai.openai_embed", "ai.ollama_embed", "ai.voyageai_embed", "ai.litellm_embed"), 1),
        **dict.fromkeys(("ai.cohere_embed", "azure_openai.create_embeddings", "google_ml.embedding"), 1),
        "embedding": 1,
    }
)
"""The functions that return a vector, with the place of the text among their values without a name."""
COMPARED = ("ai_similarity", "ai.similarity")
NAMES = (*EMBEDDED, *COMPARED)
_TEXTS = ("text", "input_text", "content", "input")
_NO_EFFECT = (
    *("model", "model_id", "endpoint", "connection_id", "deployment_name", "task_type", "title", "input_type", "host"),
    *("max_attempts", "retry_delay_ms", "timeout_ms", "throw_on_error", "keep_alive", "api_key_name", "base_url"),
)
"""Names of values that say which model answers, and how a vendor reaches the model."""


def is_ours(call: VendorCall) -> bool:
    """Return whether a call names no model, so that it stays as it is."""
    if call.name not in {"ai_embed", "ai_similarity"}:
        return False
    place = 1 if call.name == "ai_embed" else 2
    return call.positional(place) is None and call.named(*_TEXTS, *_NO_EFFECT) is None


def embedding(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `AI_EMBED('e5-base-v2', body)` as `ai_embed(body)`, and `AI.EMBED(body).result` too.

    Raises:
        SqlError: a value would change the vector, or the text is a list; the message says what to write.
    """
    if call.name in COMPARED:
        yield from _similarity(call)
        return
    text = call.named(*_TEXTS) or call.positional(EMBEDDED[call.name])
    line = f"ai_embed({'text' if text is None else call.text(text)})"
    others = [given for given in call.arguments if given is not text and (given.name or "") not in ("", *_NO_EFFECT)]
    if text is not None and _is_list(call, text):
        line = f"SELECT ai_embed(x) FROM unnest({call.text(text)}) AS t(x)"
        raise call.error(f"the server embeds one text of a row: write {line}")
    if text is None or others or call.positional(2) is not None:
        raise call.error(f"the server has one embedding model, which takes one text: write {line}")
    yield from around(call, ["ai_embed(", Value(text.first, text.last), ")"])
    if call.name == "ai.embed":  # BigQuery returns a struct
        yield _without_result(call, line)


def _is_list(call: VendorCall, text: Given) -> bool:
    return call.source.is_word(text.first, "array") or call.source.is_symbol(text.first, "[")


def _without_result(call: VendorCall, line: str) -> Edit:
    after = call.closing + 1
    if not call.source.is_symbol(after, ".") or not call.source.is_word(after + 1, "result"):
        raise call.error(f"functions here return the vector, and not an object around it: write {line}")
    tokens = call.source.tokens
    return Edit(tokens[call.closing].end, tokens[after + 1].end, "")


def _similarity(call: VendorCall) -> Iterator[Edit]:
    first = call.named("content1") or call.positional(0)
    second = call.named("content2") or call.positional(1)
    shown = ", ".join("text" if one is None else call.text(one) for one in (first, second))
    others = [one for one in call.arguments if one is not first and one is not second]
    if first is None or second is None or not all(_names_model(call, one) for one in others):
        raise call.error(f"the server has one embedding model: write ai_similarity({shown})")
    values = sorted((Value(one.first, one.last) for one in (first, second)), key=lambda one: one.first)
    yield from around(call, ["ai_similarity(", values[0], ", ", values[1], ")"])


def _names_model(call: VendorCall, given: Given) -> bool:
    if given.name is not None:
        return given.name in _NO_EFFECT
    return [one.key.lower() for one in members(call.source, given.first, given.last) or ()] == ["model"]
