"""Parse the bodies of the Messages API. A body can come from any endpoint, so nothing in it is trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flightllm.common.text import excerpt, well_formed
from flightllm.engines.finish_reasons import BROKEN, FILTERED, LENGTH, STOP, read_finish
from flightllm.engines.openai.answers import EndpointAnswer, MalformedError, read_document
from flightllm.engines.openai.usage import Usage, read_usage

_NO_TEXT: Final = "the endpoint returned an answer without a text"


def read_message(body: bytes) -> tuple[EndpointAnswer, Usage]:
    """Parse a message, which answers one prompt.

    Raises:
        MalformedError: the body is not a message, or is an error.
    """
    document = read_document(body)
    if "content" not in document and "choices" in document:
        raise MalformedError("the body is a chat completion, not a message: write the engine kind openai")
    content = document.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]  # some endpoints send a plain text
    if content is not None and not isinstance(content, list):
        raise MalformedError("content is not a list of blocks")
    return _answer(document, content or []), _usage(document)


def _answer(document: Mapping[str, Any], blocks: Sequence[Any]) -> EndpointAnswer:
    for place, block in enumerate(blocks):
        if not isinstance(block, dict):
            return EndpointAnswer(None, f"content[{place}] is not a block", passes=True)
    reason, word = read_finish(document.get("stop_reason"))
    text, thought = _joined(blocks, "text"), _joined(blocks, "thinking")
    calls = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
    if reason == FILTERED:
        return _refusal(document, text)
    if reason in {"pause_turn", BROKEN}:
        return EndpointAnswer(
            None, f"the endpoint stopped the answer (stop_reason {excerpt(word, 40)!r})", BROKEN, passes=True
        )
    reason = STOP if reason == "tool_use" else reason
    if len(calls) == 1:  # the answer is the call of the forced tool; a text before the call explains the call
        text = json.dumps(calls[0], ensure_ascii=False)
    if text.strip():
        return EndpointAnswer(well_formed(text), None, reason, reasoning=well_formed(thought))
    if reason == LENGTH:
        error = f"{_NO_TEXT}: the model reached max_tokens before it wrote any"
        return EndpointAnswer(None, error, reason, reasoning=thought)
    form = "content has only thoughts" if thought.strip() else f"content has {len(blocks)} blocks and no text"
    return EndpointAnswer(None, f"{_NO_TEXT}: {form}", reason, reasoning=thought, passes=True, empty=form)


def _refusal(document: Mapping[str, Any], text: str) -> EndpointAnswer:
    """Return the answer of a model that refused, with its explanation, else its text, else the refused category."""
    details = document.get("stop_details")
    known: Mapping[str, Any] = details if isinstance(details, dict) else {}
    given = (known.get("explanation"), text, known.get("category"))
    said = next((one for one in given if isinstance(one, str) and one.strip()), "")
    error = f"the model refused: {excerpt(said)}" if said else "the model refused to answer"
    return EndpointAnswer(None, error, FILTERED, well_formed(said) or "refusal")


def _joined(blocks: Sequence[Mapping[str, Any]], kind: str) -> str:
    found = (block.get(kind) for block in blocks if block.get("type") == kind)
    return "".join(one for one in found if isinstance(one, str))


def _usage(document: Mapping[str, Any]) -> Usage:
    """Return the tokens that a body reports; `input_tokens` counts neither read nor stored tokens."""
    given = document.get("usage")
    if not isinstance(given, dict):
        return Usage()
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    fresh, read, written = (_number(given.get(name)) for name in names)
    details = given.get("output_tokens_details")
    thought = details.get("thinking_tokens") if isinstance(details, dict) else 0
    return read_usage(
        {
            "usage": {
                "prompt_tokens": fresh + read + written,
                "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
                "completion_tokens": given.get("output_tokens"),
                "completion_tokens_details": {"reasoning_tokens": thought},
            }
        }
    )


def _number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
