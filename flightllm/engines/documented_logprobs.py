"""Say which hosted models return no log probabilities, by their providers' documentation of autumn 2026.

A call with examples asks for them. Without this knowledge, it would pay for examples whose answers tell nothing, and
EXPLAIN would expect shorter prompts: the examples then stay in the prompts of all rows.
"""

from __future__ import annotations

import re
from typing import Final

_WITHOUT: Final = frozenset(("anthropic", "gemini", "groq", "mistral"))
"""The compatible API of Anthropic ignores the parameter, that of Gemini and Groq rejects it, and Mistral lacks it."""
_REASONING: Final = re.compile(r"(?:^|/)(?:o\d|gpt-5(?:-|$))")
"""OpenAI's models that always think; later ones can leave the thought out, and then return log probabilities."""


def returns_logprobs(provider: str, model: str) -> bool:
    """Return whether answers of a model can have log probabilities; True where no documentation denies it."""
    return provider not in _WITHOUT and _REASONING.search(model.lower()) is None
