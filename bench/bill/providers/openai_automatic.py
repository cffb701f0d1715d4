"""OpenAI's models before GPT-5.6: a cache without breakpoints and without a fee.

Source: https://developers.openai.com/api/docs/guides/prompt-caching (read in autumn 2026). Prompts of 1,024 tokens or
more are cached. Hits come in steps of 128 tokens. An unused start stays for 5 to 10 minutes; here it stays for 5. The
key `prompt_cache_key` is combined with the start's hash, so requests with different keys can meet different machines.
A schema of `response_format` is before the system message. The guide says that over 15 requests a minute of one
start and key can spread to more machines; this server has one machine.
"""

from __future__ import annotations

from bench.bill.caches import Automatic
from bench.bill.prompt import Template
from bench.bill.provider import Provider

PROVIDER = Provider(
    "openai",
    "gpt-4.1-mini",
    lambda: Automatic(floor=1_024, step=128, seconds=300),
    # 3 tokens around a message, 1 for its role, 3 before the answer: the cookbook's "How to count tokens with tiktoken"
    Template(message=4, answer=3),
    schema_counts=True,
    strict=True,
    logprobs=True,
)
