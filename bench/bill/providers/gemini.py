"""Gemini through its OpenAI-compatible API: implicit caching, without a fee and without a promise.

Source: https://ai.google.dev/gemini-api/docs/caching (read in autumn 2026): the least tokens are 2,048 for Gemini 2.5
and 4,096 for Gemini 3.1 and later. Google names neither steps nor a life. Here, starts match by single tokens and stay
for 5 minutes. https://cloud.google.com/vertex-ai/generative-ai/docs/context-cache/context-cache-overview: hits cost a
tenth of the input.
"""

from __future__ import annotations

from bench.bill.caches import Automatic
from bench.bill.prompt import Template
from bench.bill.provider import Provider

PROVIDER = Provider(
    "gemini",
    "gemini-2.5-flash",
    lambda: Automatic(floor=2_048, step=1, seconds=300),
    Template(message=0, answer=1),
    schema_counts=True,
)
