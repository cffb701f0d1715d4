"""Rename vendors' functions that do the same as a function of this server."""

from collections.abc import Iterator, Mapping

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import VendorCall
from flightllm.dialect.vendors.postgres import OURS as OF_POSTGRES

OURS: Mapping[str, str] = {
    **OF_POSTGRES,
    "ai.if": "ai_if",
    "ai.score": "ai_score",
    "ai.classify": "ai_classify",
    "ai.generate": "ai_gen",
    "ai.generate_text": "ai_gen",
    "ai.generate_bool": "ai_filter",
    "ai.generate_int": "ai_gen",
    "ai.generate_double": "ai_gen",
    "cortex.complete": "ai_complete",
    "cortex.try_complete": "ai_complete",
    "cortex.classify_text": "ai_classify",
    "cortex.summarize": "ai_summarize",
    "cortex.translate": "ai_translate",
    "ai_redact": "ai_mask",
    "ai_analyze_sentiment": "ai_sentiment",
}


def named(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `SNOWFLAKE.CORTEX.SUMMARIZE(` as `ai_summarize(`, and `SNOWFLAKE.CORTEX.AI_FILTER(` as `ai_filter(`."""
    prefix, _, name = call.name.rpartition(".")
    ours = OURS.get(name if prefix == "cortex" and name.startswith("ai_") else call.name)
    if ours is None and prefix == "cortex" and name.startswith("ai_"):
        ours = name
    if ours is not None:
        yield Edit(call.start, call.source.tokens[call.opening - 1].end, ours)
