"""`AICall`: rendering of prompts and naming of stubs."""

from dataclasses import replace

import pyarrow as pa
import pytest

from flightllm.functions.call import MOST_ROOM, AICall, Room, name_stub
from flightllm.llm.engine import Choice, Parameters


@pytest.fixture
def call() -> AICall:
    """Return a call that is not named yet."""
    return AICall(
        stub="",
        function="ai_filter",
        text="ai_filter('good?', a, b)",
        instruction="good?",
        fields=("a", "b"),
        required=frozenset({0}),
        parameters=Parameters(),
        output=pa.bool_(),
        parse=bool,
        on_error="null",
    )


def test_prompt_order(call: AICall) -> None:
    """Fields follow the instruction in the order given, then the cue."""
    assert call.prompt([("b", "2"), ("a", "1")]) == "good?\n\nb: 2\na: 1\nAnswer:"
    assert call.prompt([]) == "good?\n\nAnswer:"


def test_prompt_keeps_fields_apart(call: AICall) -> None:
    """A value of several lines cannot pass for another field: different values give different prompts."""
    forged = call.prompt([("a", "1\nb: 2"), ("b", "3")])
    assert forged == "good?\n\na: 1\n  b: 2\nb: 3\nAnswer:"
    assert forged != call.prompt([("a", "1"), ("b", "2\nb: 3")])


@pytest.mark.parametrize(
    "change",
    [
        {"function": "ai_gen"},
        {"instruction": "bad?"},
        {"fields": ("a", "c")},
        {"required": frozenset({0, 1})},
        {"parameters": Parameters(max_tokens=3)},
        {"parameters": Parameters(constraint=Choice(("x", "y")))},
        {"output": pa.string()},
        {"on_error": "fail"},
        {"on_truncated": "keep"},
        {"room": Room(64)},
        {"model": "other"},
    ],
)
def test_stub_depends_on_what_decides_the_answer(call: AICall, change: dict[str, object]) -> None:
    """Any change of meaning changes the stub."""
    assert name_stub(replace(call, **change)).stub != name_stub(call).stub  # type: ignore[arg-type]


def test_stub_ignores_how_the_call_is_written(call: AICall) -> None:
    """Equal call sites share a stub, whatever their text; it is a lower-case name that SQL takes unquoted."""
    stub = name_stub(call).stub
    assert name_stub(replace(call, text="AI_FILTER ( 'good?', a, b )", parse=str)).stub == stub
    assert stub.startswith("__ai_filter_")
    assert stub.replace("_", "").isalnum()
    assert stub == stub.lower()


def test_type(call: AICall) -> None:
    """`on_error => 'struct'` wraps the output."""
    assert call.type == pa.bool_()
    assert replace(call, on_error="struct").type == pa.struct([("value", pa.bool_()), ("error", pa.string())])


def test_room(call: AICall) -> None:
    """An answer's bound grows with the bytes of its prompt's values, up to a limit; never under the parameters' own."""
    scaled = replace(call, parameters=Parameters(100), room=Room(10, per_byte=2.0))
    assert scaled.max_tokens([("a", "x" * 45), ("b", "")]) is None
    assert scaled.max_tokens([("a", "x" * 45), ("b", "x")]) == 102
    assert scaled.max_tokens([("a", "ኢትዮጵያ" * 10)]) == 10 + 2 * 150
    assert scaled.max_tokens([("a", "x" * 100_000)]) == MOST_ROOM
    assert call.max_tokens([("a", "x" * 100_000)]) is None
