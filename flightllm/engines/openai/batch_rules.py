"""The batch endpoints of the known providers: their form, limits and prices, from documentation of autumn 2026."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from flightllm.llm.batch_endpoint import BatchLimits

_MB: Final = 1_000_000
_LIMITS: Final = BatchLimits(50_000, 200 * _MB)
"""OpenAI's limits of one job; a larger file would take too much memory here."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The form of a provider's files and jobs, its limits of one job, and the price of a token of its models.

    `discounted` are the only models with this price; None: all models have it.
    """

    form: Literal["openai", "mistral", "gemini", "together"] = "openai"
    limits: BatchLimits = _LIMITS
    price: float = 0.5
    discounted: frozenset[str] | None = None

    def price_of(self, model: str) -> float:
        """Return the price of a token of a model relative to an immediate request."""
        return self.price if self.discounted is None or model in self.discounted else 1.0


_TOGETHER: Final = frozenset(
    {
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "meta-llama/Llama-3-70b-chat-hf",
        "Qwen/Qwen2.5-7B-Instruct-Turbo",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "zai-org/GLM-4.5-Air-FP8",
    }
)
LIKE_OPENAI: Final = BatchRules()
"""The rules of an unknown endpoint with files and batches as OpenAI has them."""
RULES: Final[Mapping[str, BatchRules]] = MappingProxyType(
    {
        "openai": LIKE_OPENAI,  # the guide to its Batch API
        "azure": LIKE_OPENAI,  # learn.microsoft.com/azure/foundry/reference/rest/batches-create-batch
        "groq": BatchRules(limits=BatchLimits(50_000, 100 * _MB)),  # its Python package; console.groq.com/docs/batch
        "mistral": BatchRules("mistral", BatchLimits(100_000, 200 * _MB)),  # its package: files of at most 512 MB
        "gemini": BatchRules("gemini", BatchLimits(100_000, 200 * _MB)),  # its page of rate limits: 2 GB, 100 jobs
        "together": BatchRules(  # docs.together.ai/docs/inference/batch/overview
            "together", BatchLimits(50_000, 100 * _MB), discounted=_TOGETHER
        ),
    }
)
"""The rules by our names of providers. Fireworks has batches of another kind: datasets of an account."""
