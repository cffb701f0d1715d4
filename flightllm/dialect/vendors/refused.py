"""Refuse vendors' functions without a counterpart here, each with advice on what to write instead."""

import re
from collections.abc import Callable, Mapping

from flightllm.dialect.vendors.calls import VendorCall
from flightllm.dialect.vendors.pieces import unnamed_parts
from flightllm.dialect.vendors.postgres import REFUSED as OF_POSTGRES
from flightllm.errors import UnsupportedError
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind, position

_SCALE = re.compile(
    r"(?<![\w.])(?P<low>-?\d+(?:\.\d+)?)\s*(?:to|and|through|-|–)\s*(?P<high>-?\d+(?:\.\d+)?)"
    r"|\bout\s+of\s+(?P<most>\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_RATED = re.compile(rf"\b(?:scor|rat|scale|grad|mark)\w*\b[^.\n]{{0,40}}?(?:{_SCALE.pattern})", re.IGNORECASE)
"""A scale after a word that asks for a number."""
_MOODS = "['positive', 'negative', 'neutral', 'mixed']"


def refuse(call: VendorCall) -> None:
    """Raise an error for a call that would return other values than the vendor's.

    Raises:
        UnsupportedError: the message says what to write instead.
    """
    _refuse_model(call)
    advice = REFUSED.get(call.name.removeprefix("cortex.") if "cortex.ai_" in call.name else call.name)
    message = advice(call) if advice is not None else None
    if message is not None:
        raise UnsupportedError(f"{call.shown} at {position(call.source.sql, call.start)}: {message}")


def _refuse_model(call: VendorCall) -> None:
    """Refuse `AI.GENERATE(MODEL m, 'text')`: MODEL begins the arguments of functions in FROM only."""
    first = call.positional(0)
    if first is None or first.last < first.first + 2 or not call.source.is_word(first.first, "model"):
        return
    prompt = call.positional(1)
    asked = "prompt" if prompt is None else unnamed_parts(call, prompt)
    name = text_literal("".join(token.text for token in call.source.tokens[first.first + 1 : first.last]))
    place = position(call.source.sql, call.start)
    raise UnsupportedError(f"{call.shown} at {place}: write {call.shown}({asked}, endpoint => {name})")


def _argument(call: VendorCall, place: int, instead: str, *names: str) -> str:
    """Return the text of an argument, by position or name, or `instead` without such an argument."""
    given = call.named(*names) if names else None
    given = given or call.positional(place)
    return instead if given is None else call.text(given)


def _extract_answer(call: VendorCall) -> str:
    text, asked = _argument(call, 0, "text"), _argument(call, 1, "'question'")
    return f"it returns a list with scores, which is not supported here: write ai_gen({asked}, {text})"


def _sentiment_by_category(call: VendorCall) -> str | None:
    if len(call.arguments) < 2 or call.arguments[1].name is not None:
        return None
    text, labels = _argument(call, 0, "text"), call.arguments[1]
    first = next(
        (t.text for t in call.source.tokens[labels.first : labels.last] if t.kind is TokenKind.STRING), "price"
    )
    asked = f"Judge only what is said of {first}.".replace("'", "''")
    return (
        "it takes no categories here; ask for each category: write"
        f" ai_classify({text}, {_MOODS}, instructions => '{asked}')"
    )


def _count_tokens(call: VendorCall) -> str | None:
    if call.name == "ai_count_tokens" and len(call.arguments) < 2:
        return None
    last = call.text(call.arguments[-1]) if call.arguments else "text"
    return f"it counts with the server's own model here: write ai_count_tokens({last})"


def scale_of(call: VendorCall) -> tuple[str, str] | None:
    """Return the lowest and highest number of the scale that a prompt names after a word such as "score"."""
    found = {(scale["low"] or "0", scale["high"] or scale["most"]) for scale in _scales(call, _RATED)}
    return found.pop() if len(found) == 1 else None


def _scales(call: VendorCall, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    given = call.named("prompt") or call.positional(0)
    if given is None or call.named("low", "high"):
        return []
    texts = [token.text for token in call.source.tokens[given.first : given.last] if token.kind is TokenKind.STRING]
    return [scale for text in texts for scale in pattern.finditer(text)]


def _score(call: VendorCall) -> str | None:
    """Refuse a prompt with numbers that are probably a scale: `ai_score` has its own scale, 0 to 10."""
    scale = next(iter(_scales(call, _SCALE)), None)
    if scale is None or scale_of(call) is not None:
        return None
    return (
        "the prompt names a scale, and the scale here is 0 to 10 unless the call says otherwise: write"
        f" low => {scale['low'] or 0}, high => {scale['high'] or scale['most']} after the prompt"
    )


def _no(what: str) -> Callable[[VendorCall], str]:
    return lambda _: what


def _embedding_model(call: VendorCall) -> str | None:
    """Refuse a model of Databricks that returns vectors, because `ai_query` would ask it for a text."""
    endpoint = call.named("endpoint") or call.positional(0)
    if endpoint is None or call.text(endpoint).strip("'\"").lower() not in _EMBEDDING_MODELS:
        return None
    text = call.named("request")
    text = text or call.positional(1 if endpoint.name is None else 0)
    return f"the server has one embedding model: write ai_embed({'text' if text is None else call.text(text)})"


def _fused(call: VendorCall) -> str:
    return f"no function here fuses scores: write {_summed(call, 'coalesce({}, 0)')}, with scores from 0 to 1"


def _summed(call: VendorCall, term: str) -> str:
    return " + ".join(term.format(call.text(given)) for given in call.arguments) or term.format("score")


_EMBEDDING_MODELS = ("databricks-gte-large-en", "databricks-bge-large-en", "databricks-qwen3-embedding-0-6b")
_FORECAST = _no("no function here forecasts: aggregate by date_trunc, and forecast in a client")
_FILES = _no("no function here reads files: keep their text in a column")
_SPLIT = _no("no function here splits a text into pieces: split it in a client, and write one row for each piece")

REFUSED: Mapping[str, Callable[[VendorCall], str | None]] = {
    **OF_POSTGRES,
    "cortex.extract_answer": _extract_answer,
    "cortex.split_text_recursive_character": _SPLIT,
    "cortex.split_text_markdown_header": _SPLIT,
    "cortex.entity_sentiment": _no("write ai_classify(text, labels) for each entity"),
    "ai_sentiment": _sentiment_by_category,
    "ai_query": _embedding_model,
    "to_file": _FILES,
    "fl_get_relative_path": _FILES,
    "fusion_rrf": lambda call: f"it adds up ranks: write {_summed(call, 'coalesce(1.0 / (60 + {}), 0)')}",
    **dict.fromkeys(("fusion_combsum", "fusion_combmnz", "fusion_combmed", "fusion_combanz"), _fused),
    "open_prompt": lambda call: f"write ai_gen({_argument(call, 0, 'text')})",
    "ai_count_tokens": _count_tokens,
    "cortex.count_tokens": _count_tokens,
    "ai.search": _no("search an index: write SELECT * FROM vector_search('index', 'text', top_k => 3)"),
    "cortex.search_preview": _no("search an index: write SELECT * FROM vector_search('index', 'text', top_k => 3)"),
    "ai.score": _score,
    "ai_forecast": _FORECAST,
    "ai.forecast": _FORECAST,
    "ai.evaluate": _FORECAST,
    "ai_parse_document": _FILES,
    "ai_transcribe": _FILES,
    "cortex.parse_document": _FILES,
    "cortex.finetune": _no("train outside, and write CREATE MODEL with lora"),
}
