"""Bodies of endpoints: what is read of right ones, and what is said of others."""

import json
from typing import Any

import pytest

from flightllm.engines.openai.answers import (
    EndpointAnswer,
    MalformedError,
    MiscountError,
    read_chat,
    read_texts,
    read_vectors,
)
from flightllm.engines.openai.usage import Usage


def chat(content: object, usage: object = None, **choice: object) -> bytes:
    """Make the body of a chat completion."""
    choices = [{"index": 0, "message": {"role": "assistant", "content": content}, **choice}]
    return json.dumps({"choices": choices, "usage": usage}).encode()


def texts(*choices: dict[str, Any]) -> bytes:
    """Make the body of a completion."""
    return json.dumps({"choices": choices}).encode()


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (chat("yes"), EndpointAnswer("yes")),
        (chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), EndpointAnswer("ab")),
        (
            chat([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]),
            EndpointAnswer("a", reasoning="hm"),
        ),
        (
            chat([{"type": "reasoning", "text": "hm"}, {"type": "output_text", "text": "a"}]),
            EndpointAnswer("a", reasoning="hm"),
        ),
        (
            chat([{"type": "thinking", "thinking": "hm"}]),
            EndpointAnswer(
                None,
                "the endpoint returned no text: content is a list that has only thoughts",
                reasoning="hm",
                passes=True,
            ),
        ),
        (
            chat(" \n"),
            EndpointAnswer(None, "the endpoint returned no text: content is an empty text", passes=True),
        ),
        (chat("a\ud800b\0"), EndpointAnswer("a�b\0")),
        (chat("half", finish_reason="length"), EndpointAnswer("half", finish_reason="length")),
        (chat("x", index=None), EndpointAnswer("x")),
        (texts({"index": 0, "text": "x", "finish_reason": "stop"}), EndpointAnswer("x")),
        (chat("x", finish_reason=["stop"], logprobs="none"), EndpointAnswer("x")),
        (
            chat(None),
            EndpointAnswer(None, "the endpoint returned no text: content is missing or null", passes=True),
        ),
        (chat(5), EndpointAnswer(None, "content is a number, not a text", passes=True)),
        (
            chat([{"type": "refusal", "refusal": "I will not"}]),
            EndpointAnswer(None, "the model refused: I will not", refusal="I will not"),
        ),
        (
            chat("half", finish_reason="content_filter"),
            EndpointAnswer(
                None,
                "the endpoint's content filter stopped the answer (finish_reason 'content_filter')",
                "content_filter",
            ),
        ),
        (
            chat(None, finish_reason="content_filter", content_filter_results={"hate": {"filtered": True}, "x": 1}),
            EndpointAnswer(None, "the endpoint's content filter stopped the answer (hate)", "content_filter"),
        ),
        (
            chat("half", finish_reason="abort"),
            EndpointAnswer(None, "the endpoint aborted the answer (finish_reason 'abort')", "error", passes=True),
        ),
        (
            chat(None, finish_reason="length"),
            EndpointAnswer(
                None, "the endpoint returned no text: the model reached max_tokens before it wrote any", "length"
            ),
        ),
    ],
)
def test_answers(body: bytes, answer: EndpointAnswer) -> None:
    """A text is used as it is said to be; without one the error says why."""
    assert read_chat(body)[0] == [answer]


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2.0, "prompt_tokens_details": {"cached_tokens": 12}},
            Usage(9, 0, 2, estimated=True),
        ),
        ({"prompt_tokens": "9", "completion_tokens": -1, "prompt_tokens_details": [1]}, Usage()),
        ({"prompt_tokens": 10**30, "completion_tokens": float("nan")}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": float("inf")}, Usage()),
        ("many", Usage()),
        ({"total_tokens": 12}, Usage()),
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 31}, Usage(9, 0, 22, 20)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 20}},
            Usage(9, 0, 22, 20),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 20}},
            Usage(9, 0, 22, 20),
        ),
    ],
)
def test_usage(usage: object, read: Usage) -> None:
    """A count that is no number is 0, thoughts beside the answer are added to it, and the answer stands."""
    assert read_chat(chat("yes", usage)) == ([EndpointAnswer("yes")], read)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b" <html>", "HTML"),
        (b"data: {}", "stream of events"),
        (b"\xff\xfe\x80", "not UTF-8|not JSON"),
        (chat("x")[:-3], "not JSON"),
        (chat("x") + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2, 3]", "a list, not a JSON object"),
        (b"null", "null, not a JSON object"),
        (b'{"error": {"message": "over\\n there"}}', "an error: over there"),
        (b'{"choices": 5}', "choices is a number"),
        (b'{"choices": [5]}', "choices.0. is a number"),
        (b'{"choices": [{"index": 0, "message": null}]}', "message is missing or null"),
    ],
)
def test_malformed(body: bytes, said: str) -> None:
    """What is no chat completion is an error that says what it is."""
    with pytest.raises(MalformedError, match=said):
        read_chat(body)


@pytest.mark.parametrize(
    "indices", [(0, 0), (1, 1), (-1, 0), (0, 2), (0, None), (0, "1"), (False, True), (0, 1.0), (0,)]
)
def test_indices(indices: tuple[object, ...]) -> None:
    """Answers that are not one for each prompt are nobody's; in any order they are each prompt's own."""
    with pytest.raises(MiscountError):
        read_texts(texts(*({"index": index, "text": "x"} for index in indices)), 2)
    right, _ = read_texts(texts({"index": 1, "text": "b"}, {"index": 0, "text": "a"}), 2)
    assert [answer.text for answer in right] == ["a", "b"]


def vectors(*rows: object) -> bytes:
    """Make the body of embeddings."""
    return json.dumps({"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]}).encode()


def test_vectors() -> None:
    """Vectors come as numbers, as texts of numbers, or in base 64."""
    found = read_vectors(vectors([1, 2.5], ["1", "2.5"], "[1, 2.5]", "AACAPwAAgL8="), 4)
    assert list(map(list, found)) == [[1.0, 2.5], [1.0, 2.5], [1.0, 2.5], [1.0, -1.0]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "row",
    [[float("nan")], [1e39], [10**400], ["nan"], ["a"], [True], [None], "!", "AAA=", "[1, 2", "[true]", [], None, {}],
)
def test_no_vectors(row: object) -> None:
    """A value that is no finite vector is an error of its text; a body without any vector is an error."""
    with pytest.raises(MalformedError):
        read_vectors(vectors(row), 1)
    first, second = read_vectors(vectors(row, [1.0]), 2)
    assert isinstance(first, MalformedError)
    assert list(second) == [1.0]  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("content", ["", None])
def test_an_answer_in_the_place_of_a_thought(key: str, content: str | None) -> None:
    """A thought is the answer only where thoughts are off and the content is empty."""
    message = {"content": content, key: "Paris"}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    assert read_chat(body, thinks=False)[0] == [EndpointAnswer("Paris")]
    [lost] = read_chat(body)[0]
    assert (lost.text, lost.reasoning, lost.passes) == (None, "Paris", True)
    written = json.dumps({"choices": [{"message": {**message, "content": "Rome"}}]}).encode()
    assert read_chat(written, thinks=False)[0] == [EndpointAnswer("Rome", reasoning="Paris")]
