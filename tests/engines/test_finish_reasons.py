"""Why a model stopped, in the words of many endpoints."""

import pytest

from flightllm.engines.finish_reasons import read_finish


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (("stop", "eos", "eos_token", "end_turn", "STOP", "COMPLETE", "stop_sequence", "", None, 5, ["stop"]), "stop"),
        (("length", "max_tokens", "MAX_TOKENS", "model_length", "FINISH_REASON_MAX_TOKENS", "max-tokens"), "length"),
        (({"type": "length", "length": 8}, "ERROR_LIMIT", "model_context_window_exceeded"), "length"),
        (
            ("content_filter", "SAFETY", "RECITATION", "ERROR_TOXIC", "refusal", "guardrail_intervened"),
            "content_filter",
        ),
        (("error", "abort", "insufficient_system_resource", "network_error"), "error"),
        (("tool_calls",), "tool_calls"),
        (("Own word",), "Own word"),
    ],
)
def test_words(words: tuple[object, ...], meaning: str) -> None:
    """Each word means one of four things, an unknown one itself."""
    assert {read_finish(word)[0] for word in words} == {meaning}


def test_own_word() -> None:
    """The endpoint's own word is there for messages."""
    assert read_finish("SAFETY") == ("content_filter", "SAFETY")
