"""Names of Claude models, and the rules that they lead to."""

import pytest

from flightllm.engines.anthropic.claude import claude_of, claude_rules_of, thinking_levels


@pytest.mark.parametrize(
    ("model", "floor"),
    [
        ("claude-haiku-4-5", 4_096),
        ("claude-haiku-4-5@20251001", 4_096),
        ("claude-opus-4-6", 4_096),
        ("claude-opus-4-7", 2_048),
        ("claude-3-5-haiku-20241022", 2_048),
        ("claude-3-opus-20240229", 1_024),
        ("claude-sonnet-4-20250514", 1_024),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 1_024),
        ("anthropic/claude-4.6-sonnet", 1_024),
        ("claude-sonnet-5", 1_024),
        ("claude-opus-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-fable-5-1", 512),
        ("claude-opus-7", 512),
        ("my-claude", 1_024),
    ],
)
def test_floors(model: str, floor: int) -> None:
    """Each way to write a name leads to the floor of the model's cache."""
    rules = claude_rules_of(model)
    assert rules is not None
    assert (rules.floor, rules.read, rules.write) == (floor, 0.1, 1.25)


@pytest.mark.parametrize("model", ["deepseek-chat", "kimi-k2", "qwen3-8b"])
def test_other_vendors(model: str) -> None:
    """Models of other vendors behind this API have no rules of Claude."""
    assert claude_of(model) is None
    assert claude_rules_of(model) is None


@pytest.mark.parametrize(
    ("model", "level", "ways"),
    [
        ("claude-haiku-4-5", "off", [{}]),
        ("claude-opus-5", "off", [{"thinking": {"type": "disabled"}}, {"output_config.effort": "low"}, {}]),
        ("claude-fable-5", "off", [{"output_config.effort": "low"}, {}]),
        ("claude-opus-5-5", "off", [{"output_config.effort": "low"}, {}]),
        ("claude-sonnet-4-5", "low", [{"thinking": {"type": "enabled", "budget_tokens": 2_048}}, {}]),
        ("claude-opus-4-8", "high", [{"thinking": {"type": "adaptive"}, "output_config.effort": "high"}, {}]),
    ],
)
def test_thinking(model: str, level: str, ways: list[dict[str, object]]) -> None:
    """Each model is asked for a thought, or not to think, as its version takes it."""
    assert [dict(one.body) for one in thinking_levels(model, level)] == ways
