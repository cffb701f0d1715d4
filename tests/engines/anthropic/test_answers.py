"""Bodies of the Messages API."""

import json

import pytest

from flightllm.engines.anthropic.answers import read_message
from flightllm.engines.openai.answers import ErrorBodyError, MalformedError
from flightllm.engines.openai.usage import Usage
from tests.messages_api import Reply, message

TEXT = {"type": "text", "text": "good"}


def body(reply: Reply) -> bytes:
    """Return the bytes of a reply."""
    return json.dumps(reply[1]).encode() if isinstance(reply[1], dict) else reply[1]


def test_texts_and_thoughts() -> None:
    """The texts are the answer; thoughts stay beside it, and hidden thoughts are left out."""
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        TEXT,
    ]
    answer, _ = read_message(body(message(blocks)))
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("good", "hm", "stop")


def test_a_forced_tool() -> None:
    """The input of the forced tool is the answer, without the text before it."""
    call = {"type": "tool_use", "id": "1", "name": "answer", "input": {"answer": "ja"}}
    answer, _ = read_message(body(message([TEXT, call], "tool_use")))
    assert (answer.text, answer.finish_reason) == ('{"answer": "ja"}', "stop")


def test_usage_counts_read_and_stored_tokens() -> None:
    """`input_tokens` leaves out the tokens that were read and stored; a prompt has all three."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 30, "output_tokens": 9}
    usage |= {"output_tokens_details": {"thinking_tokens": 4}}  # type: ignore[dict-item]
    found = read_message(body(message([TEXT], usage=usage)))[1]
    assert found == Usage(105, 70, 9, 4, written_tokens=30)


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": "many", "output_tokens": -1}])
def test_no_usage(usage: object) -> None:
    """A usage that says nothing counts as missing."""
    assert read_message(body(message([TEXT], usage=usage)))[1].prompt_tokens == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"stop_details": {"type": "refusal", "category": "bio", "explanation": "not this"}}, "not this"),
        ({"stop_details": {"type": "refusal", "category": "bio"}}, "bio"),
        ({"content": [{"type": "text", "text": "I can't"}]}, "I can't"),
        ({}, "refusal"),
    ],
)
def test_refusals(more: dict[str, object], said: str) -> None:
    """A refusal quotes the model's explanation, its text, or the category."""
    answer, _ = read_message(body(message(more.pop("content", []), "refusal", **more)))
    assert (answer.text, answer.refusal, answer.finish_reason) == (None, said, "content_filter")
    assert "refused" in str(answer.error)


@pytest.mark.parametrize(
    "content", [[], None, [{"type": "text", "text": " "}], [{"type": "thinking", "thinking": "hm"}]]
)
def test_empty_answers_can_pass(content: object) -> None:
    """An answer without a text can get one at the next try; at max_tokens it cannot."""
    assert read_message(body(message(content)))[0].passes
    cut = read_message(body(message(content, "max_tokens")))[0]
    assert (cut.passes, cut.finish_reason) == (False, "length")


@pytest.mark.parametrize("stop", ["pause_turn", "error"])
def test_stops_that_can_pass(stop: str) -> None:
    """An answer that the endpoint stopped is asked again."""
    assert read_message(body(message([TEXT], stop)))[0].passes


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b"[]", b'{"content": {}}', b'{"choices": [{"message": {"content": "x"}}]}']
)
def test_other_bodies(raw: bytes) -> None:
    """A body that is not a message is an error of its row."""
    with pytest.raises(MalformedError):
        read_message(raw)


def test_errors_inside_a_success() -> None:
    """An error in a body with the status of a success is read as the error that it is."""
    with pytest.raises(ErrorBodyError, match="overloaded"):
        read_message(b'{"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}')


def test_a_block_that_is_none() -> None:
    """A content with something else than blocks can pass."""
    assert read_message(body(message(["text"])))[0].passes
