"""The providers' rules, one provider in each file."""

from typing import Final

from bench.bill.provider import Provider
from bench.bill.providers import (
    anthropic,
    deepseek,
    gemini,
    groq,
    mistral,
    openai_automatic,
    openai_breakpoints,
)

PROVIDERS: Final[tuple[Provider, ...]] = (
    openai_automatic.PROVIDER,
    openai_breakpoints.PROVIDER,
    anthropic.PROVIDER,
    gemini.PROVIDER,
    mistral.PROVIDER,
    deepseek.PROVIDER,
    groq.PROVIDER,
)
