"""Choose the form in which a provider takes batches."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flightllm.engines.openai.batch_rules import LIKE_OPENAI, RULES
from flightllm.engines.openai.batches import OpenAIBatches
from flightllm.engines.openai.gemini_batches import GeminiBatches
from flightllm.engines.openai.mistral_batches import MistralBatches
from flightllm.engines.openai.together_batches import TogetherBatches

_FORMS: Final[Mapping[str, type[OpenAIBatches]]] = MappingProxyType(
    {"openai": OpenAIBatches, "mistral": MistralBatches, "gemini": GeminiBatches, "together": TogetherBatches}
)


def batches_of(provider: str) -> type[OpenAIBatches]:
    """Return the class for a provider's batches; an unknown provider is one like OpenAI."""
    return _FORMS[RULES.get(provider, LIKE_OPENAI).form]
