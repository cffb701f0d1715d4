"""Groq: a cache without breakpoints and without a fee.

Source: https://console.groq.com/docs/prompt-caching (read in autumn 2026): hits cost half of the input. A start stays
for 2 hours after its last use. The least tokens are 128 to 1,024, by model; Groq does not say for which. Here it is
128, in steps of 128.
"""

from __future__ import annotations

from bench.bill.caches import Automatic
from bench.bill.prompt import Template
from bench.bill.provider import Provider

PROVIDER = Provider(
    "groq",
    "openai/gpt-oss-20b",
    lambda: Automatic(floor=128, step=128, seconds=7_200),
    Template(message=4, answer=3),
    strict=True,
)
