"""Modes of thinking: what a chat template is told, and how many tokens a thought has."""

import pytest
from jinja2 import Environment

from flightllm.llm.thinking import (
    BUDGETS,
    Thinking,
    no_room_to_think,
    read_thinking,
    thought_room,
    unfinished_thought,
)

ASKED = "Q\nA:"


def read(template: str) -> Thinking:
    """Read a template that has one question."""
    compiled = Environment(autoescape=False, keep_trailing_newline=True).from_string(template)  # noqa: S701 - no page of the web
    return read_thinking(template, compiled.render)


@pytest.mark.parametrize(
    ("template", "off", "high"),
    [
        ("Q{% if thinking %}<think>{% else %}</think>{% endif %}", {"thinking": False}, {"thinking": True}),
        ("Q {{ thinking_budget }}<seed:think>", {"thinking_budget": 0}, {"thinking_budget": 8192}),
        ("Q {{ reasoning_effort }}<|channel|>analysis", {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
        (
            "{% if reasoning_effort == 'none' %}Q{% else %}Q<think>{% endif %}",
            {"reasoning_effort": "none"},
            {"reasoning_effort": "high"},
        ),
        (
            "Q{{ {'low': 1, 'xhigh': 2}[reasoning_effort].real }}<think>",
            {"reasoning_effort": "low"},
            {"reasoning_effort": "xhigh"},
        ),
        ("Q{{ message.thinking }}{{ 'enable_thinking' }}", {}, {}),
    ],
)
def test_the_switches_of_templates(template: str, off: dict[str, object], high: dict[str, object]) -> None:
    """A template gets the arguments that it reads, with values that it takes."""
    asked = read(template).asked
    assert dict(asked["off"].arguments) == off
    assert dict(asked["high"].arguments) == high


@pytest.mark.parametrize(
    ("template", "off", "low"),
    [
        (ASKED, ASKED, ASKED),
        (f"{ASKED}<think>\n", f"{ASKED}<think>\n\n</think>\n\n", f"{ASKED}<think>\n"),
        (f"{ASKED}[THINK]", f"{ASKED}[THINK][/THINK]", f"{ASKED}[THINK]"),
        (
            f"{ASKED}{{% if 0 %}}[THINK]{{% endif %}}",
            f"{ASKED}[THINK][/THINK]",
            f"{ASKED}[THINK]",
        ),
        (
            f"{ASKED}{{% if not enable_thinking %}}\n<think></think>{{% endif %}}",
            f"{ASKED}\n<think></think>",
            f"{ASKED}\n<think>",
        ),
        (
            f"{ASKED}{{% if 0 %}}<|channel|>analysis{{% endif %}}",
            f"{ASKED}<|channel|>final<|message|>",
            f"{ASKED}<|channel|>analysis<|message|>",
        ),
        (f"{ASKED}{{% if 0 %}}history.split('</think>'){{% endif %}}", ASKED, ASKED),
    ],
)
def test_what_follows_a_prompt(template: str, off: str, low: str) -> None:
    """A thought is closed where none is wanted, and opened where one is."""
    asked = read(template).asked
    compiled = Environment(autoescape=False, keep_trailing_newline=True).from_string(template)  # noqa: S701
    assert compiled.render(asked["off"].arguments) + asked["off"].tail == off
    assert compiled.render(asked["low"].arguments) + asked["low"].tail == low


def test_the_tokens_of_a_thought() -> None:
    """A thought has its level's tokens or as many as the answer, but leaves the answer room in the context."""
    assert thought_room("low", 64, 100_000) == BUDGETS["low"]
    assert thought_room("low", 4_000, 100_000) == 4_000
    assert thought_room("high", 64, 1_064) == 1_000
    assert thought_room("high", 5_000, 1_000) == 500
    assert thought_room("medium", 64, 30) == 0


def test_errors_say_what_to_write() -> None:
    """A row without room or without an end of its thought is told what to write instead."""
    assert no_room_to_think(-3) == (
        "the prompt leaves the model 0 tokens to think and to answer: write reasoning => 'off'"
    )
    assert "after 8,192 tokens" in unfinished_thought(8_192)
    assert "reasoning => 'off', or a larger max_tokens" in unfinished_thought(8_192)
