"""Rewrite the functions of pgai, AlloyDB and azure_ai, extensions of PostgreSQL."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import VendorCall
from flightllm.sql.tokens import TokenKind

OURS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("ai.openai_chat_complete", "ai.ollama_chat_complete", "ai.anthropic_generate"), "ai_complete"),
        **dict.fromkeys(("ai.ollama_generate", "ai.litellm_chat_complete"), "ai_complete"),
        **dict.fromkeys(("ai.cohere_chat_complete", "azure_openai.create_chat_completion"), "ai_complete"),
        "ai.openai_chat_complete_simple": "ai_gen",
        "google_ml.if": "ai_if",
        "google_ml.generate": "ai_gen",
        "azure_ai.generate": "ai_gen",
        "azure_ai.is_true": "ai_if",
    }
)
"""For each function of an extension, the function of this server that does the same."""
_OF_OPENAI = ("choices", "0", "message", "content")
PATHS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("ai.openai_chat_complete", "ai.litellm_chat_complete"), _OF_OPENAI),
        "azure_openai.create_chat_completion": _OF_OPENAI,
        "ai.cohere_chat_complete": ("message", "content", "0", "text"),
        "ai.ollama_chat_complete": ("message", "content"),
        "ai.anthropic_generate": ("content", "0", "text"),
        "ai.ollama_generate": ("response",),
    }
)
"""The path to the text in what a function returns there."""
_ARROWS = ("->", "->>")


def text_path(call: VendorCall) -> Iterator[Edit]:
    """Remove `->'choices'->0->'message'->>'content'` after a call, as the functions here return the text itself.

    Raises:
        SqlError: another path follows, or none: the call would return an object there.
    """
    expected = PATHS.get(call.name)
    if expected is None:
        return
    source, found, after, last = call.source, list[str](), call.closing + 1, ""
    while after + 1 < len(source.tokens) and _is_arrow(call, after):
        step = source.tokens[after + 1]
        if step.kind not in {TokenKind.STRING, TokenKind.NUMBER}:
            break
        found.append(step.text)
        last = source.tokens[after].text
        after += 2
    if tuple(found) != expected or last != "->>":  # `->` would return JSON, which has quotes
        shown = "->".join(one if one.isdigit() else f"'{one}'" for one in expected[:-1])
        arrow = f"{'->' if shown else ''}{shown}->>'{expected[-1]}'"
        raise call.error(f"functions here return the text, and not an object around it: write {arrow} after the call")
    yield Edit(source.tokens[call.closing].end, source.tokens[after - 1].end, "")


def _is_arrow(call: VendorCall, index: int) -> bool:
    return any(call.source.is_symbol(index, arrow) for arrow in _ARROWS)


def _text(call: VendorCall, place: int, instead: str = "text") -> str:
    given = call.named("text", "input_text", "content", "input") or call.positional(place)
    return instead if given is None else call.text(given)


def _ranked(call: VendorCall) -> str:
    prompt = call.named("prompt")
    unnamed = [given for given in call.arguments if given.name is None]
    if prompt is None and len(unnamed) != 1:
        return "it returns rows: write SELECT * FROM t ORDER BY ai_score('question', text) DESC"
    asked = call.text(prompt or unnamed[0])
    return f"it returns a score on the model's own scale: write ai_score({asked}, low => 0, high => 1)"


def _predicted(call: VendorCall) -> str:
    model = call.named("model_id") or call.positional(0)
    named = "'default'" if model is None else call.text(model)
    return f"it sends a request of a provider's own form: write ai_complete({named}, 'a prompt')"


_LABEL = "ai_classify(text, ['a', 'b'])"
_TOKENS = ("ai.openai_tokenize", "ai.openai_detokenize", "ai.cohere_tokenize", "ai.cohere_detokenize")
_LISTS = tuple(f"ai.{name}_list_models" for name in ("openai", "ollama", "anthropic", "cohere"))


def _instead(line: str) -> Callable[[VendorCall], str]:
    return lambda call: f"write {line.format(text=_text(call, 0))}"


REFUSED: Mapping[str, Callable[[VendorCall], str]] = MappingProxyType(
    {
        **dict.fromkeys(("ai.rank", "google_ml.rank", "azure_ai.rank", "ai.cohere_rerank"), _ranked),
        "google_ml.predict_row": _predicted,
        "azure_ai.extract": lambda call: f"it returns JSON: write ai_extract({_text(call, 0)}, ['field'])",
        "azure_cognitive.analyze_sentiment": _instead("ai_sentiment({text})"),
        "azure_cognitive.summarize_abstractive": _instead("ai_summarize({text})"),
        "azure_cognitive.summarize_extractive": _instead("ai_summarize({text})"),
        "azure_cognitive.translate": _instead("ai_translate({text}, 'en')"),
        "azure_cognitive.recognize_pii_entities": _instead("ai_mask({text}, ['person', 'email'])"),
        "azure_cognitive.recognize_entities": _instead("ai_extract({text}, ['person', 'place'])"),
        "azure_cognitive.extract_key_phrases": _instead("ai_gen('List the key phrases', {text})"),
        "azure_cognitive.detect_language": _instead("ai_gen('Name the language', {text})"),
        "ai.openai_moderate": lambda call: f"write ai_filter('Is this text harmful?', {_text(call, 1)})",
        **dict.fromkeys(
            ("ai.cohere_classify", "ai.cohere_classify_simple"), lambda _: f"it returns rows: write {_LABEL}"
        ),
        "ai.cohere_rerank_simple": _ranked,
        **dict.fromkeys(_TOKENS, lambda _: "no function here returns tokens: write ai_count_tokens(text)"),
        **dict.fromkeys(_LISTS, lambda _: "write SELECT * FROM system.models, or SHOW MODELS"),
        "ai.summarize": _instead("ai_summarize({text})"),
        "ai.analyze_sentiment": _instead("ai_sentiment({text})"),
        "azure_ai.set_setting": lambda _: (
            "an admin names the address: write CREATE MODEL m OPTIONS (engine 'openai', model 'm', base_url"
            " 'http://127.0.0.1:8000/v1')"
        ),
        "ai.load_dataset": lambda _: "write CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'folder'",
        "ai.chunk_text": lambda _: "no function here splits documents: split the text in a client",
        "ai.chunk_text_recursively": lambda _: "no function here splits documents: split the text in a client",
    }
)
