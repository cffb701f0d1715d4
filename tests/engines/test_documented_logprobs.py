"""Which hosted models return log probabilities."""

import pytest

from flightllm.engines.documented_logprobs import returns_logprobs


@pytest.mark.parametrize(
    ("provider", "model", "given"),
    [
        ("openai", "gpt-4.1-mini", True),
        ("openai", "gpt-5-nano", False),
        ("azure", "gpt-5", False),
        ("openai", "gpt-5.6-luna", True),
        ("openai", "o3", False),
        ("openrouter", "openai/o4-mini", False),
        ("deepseek", "deepseek-chat", True),
        ("groq", "openai/gpt-oss-20b", False),
        ("mistral", "mistral-small-latest", False),
        ("anthropic", "claude-sonnet-5", False),
        ("gemini", "gemini-2.5-flash", False),
        ("unknown", "Qwen/Qwen3-8B", True),
        ("vllm", "foo4-model", True),
    ],
)
def test_models(provider: str, model: str, given: bool) -> None:
    """Providers that document no log probabilities give none; all others can."""
    assert returns_logprobs(provider, model) is given
