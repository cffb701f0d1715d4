"""Mistral: a cache for requests that name a common `prompt_cache_key`.

Source: https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching (read in autumn 2026): cached tokens
cost a tenth of the input. Requests that share a prefix set the same key. The page names no floor and no life. Here,
starts match in blocks of 64 tokens and stay for 5 minutes.
"""

from __future__ import annotations

from bench.bill.caches import Automatic
from bench.bill.prompt import Template
from bench.bill.provider import Provider

PROVIDER = Provider(
    "mistral",
    "mistral-small-latest",
    lambda: Automatic(floor=64, step=64, seconds=300, needs_key=True),
    Template(message=2, answer=1),
    schema_counts=True,
    strict=True,
)
