"""Create the engine for the API that an endpoint's options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flightllm.engines.openai.options import read_openai_options
from flightllm.errors import MissingExtraError

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

try:
    from flightllm.engines.openai.decisions import DecisionsEngine
    from flightllm.engines.openai.engine import OpenAIEngine
    from flightllm.engines.openai.engine import create as create_writing
except ImportError as exc:
    raise MissingExtraError("the engine 'openai'", "openai") from exc


def create(config: EngineConfig) -> OpenAIEngine:
    """Create the engine that the configuration describes; this sends no request."""
    options = read_openai_options(config.options)
    if options.decides:
        return DecisionsEngine(config.model, config.max_in_flight, options, config.reasoning)
    return create_writing(config)


def check(config: EngineConfig) -> None:
    """Check the options and the API key to which they refer; see `OpenAIOptions.read_key`."""
    read_openai_options(config.options).read_key()
