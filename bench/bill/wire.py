"""Read requests in OpenAI's and Anthropic's wire formats, and write answers with each provider's form of usage."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from bench.bill.answers import answer, log_probabilities, options_of, seed
from bench.bill.prices import Usage
from bench.bill.prompt import Block, Prompt, Tokenizes, build
from bench.bill.provider import Provider

_LIVES: Final = {"5m": 300.0, "1h": 3_600.0}


class _Mark(TypedDict):
    marked: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Read:
    """A request: its prompt for the cache, the text of the answer, and the tool that the answer must call.

    `options` are those that the answer chose from, if the request asks for log probabilities.
    """

    prompt: Prompt
    text: str
    tool: str = ""
    options: Sequence[str] = ()


def read_chat(body: Mapping[str, Any], provider: Provider, tokenize: Tokenizes) -> Read:
    """Read a request of OpenAI's chat completions."""
    said = [_texts(message["content"]) for message in body["messages"]]
    blocks = [
        Block(
            text=part["text"],
            marked=isinstance(part.get("prompt_cache_breakpoint"), dict),
            ends_message=number == len(parts),
        )
        for parts in said
        for number, part in enumerate(parts, 1)
    ]
    schema = body.get("response_format", {}).get("json_schema")
    if schema and provider.schema_counts:
        blocks = [Block(json.dumps(schema, separators=(",", ":"))), *blocks]
    options = body.get("prompt_cache_options") or {}
    prompt = build(
        blocks,
        provider.template,
        tokenize,
        str(body.get("prompt_cache_key") or ""),
        explicit=options.get("mode") == "explicit",
    )
    whole = [block.text for block in blocks]
    as_object = body.get("response_format", {}).get("type") == "json_object"
    form, text = schema and schema["schema"], "\n".join(whole)
    options = options_of(form, text) if body.get("logprobs") else ()
    return Read(prompt, answer(form, text, seed(whole), as_object=as_object), options=options)


def read_messages(body: Mapping[str, Any], provider: Provider, tokenize: Tokenizes) -> Read:
    """Read a request of Anthropic's Messages API. Tools come before the system prompt, and this before the messages."""
    blocks = [
        Block(json.dumps(_plain(tool), separators=(",", ":")), **_mark(tool), ends_message=True)
        for tool in body.get("tools", ())
    ]
    schema = _schema(body)
    if schema is not None and not body.get("tools"):
        blocks.append(Block(json.dumps(schema, separators=(",", ":")), ends_message=True))
    for content in (*filter(None, [body.get("system")]), *(message["content"] for message in body["messages"])):
        parts = _texts(content)
        blocks += [
            Block(part["text"], **_mark(part), ends_message=number == len(parts))
            for number, part in enumerate(parts, 1)
        ]
    if "cache_control" in body:  # the automatic form: the last block has the mark
        last = blocks[-1]
        blocks[-1] = Block(last.text, **_mark(body), ends_message=last.ends_message)
    whole = [block.text for block in blocks]
    choice = body.get("tool_choice") or {}
    text = answer(schema, "\n".join(whole), seed(whole))
    return Read(build(blocks, provider.template, tokenize), text, choice.get("name", ""))


def chat_answer(read: Read, model: str, usage: Usage, provider: Provider) -> Mapping[str, Any]:
    """Return the body of a chat completion."""
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    if provider.tells_writes:
        counts["prompt_tokens_details"]["cache_write_tokens"] = usage.written
    if "hit_and_miss" in provider.names:
        counts |= {"prompt_cache_hit_tokens": usage.read, "prompt_cache_miss_tokens": usage.input}
    message = {"role": "assistant", "content": read.text, "refusal": None}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
    if provider.logprobs and (listed := log_probabilities(read.text, read.options)):
        choice["logprobs"] = {"content": listed}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice], "usage": counts}


def messages_answer(read: Read, model: str, usage: Usage) -> Mapping[str, Any]:
    """Return the body of a message."""
    content: Mapping[str, Any] = {"type": "text", "text": read.text}
    if read.tool:
        content = {"type": "tool_use", "id": "toolu_1", "name": read.tool, "input": json.loads(read.text)}
    counts = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written - usage.long,
            "ephemeral_1h_input_tokens": usage.long,
        },
        "output_tokens": usage.output,
    }
    stop = "tool_use" if read.tool else "end_turn"
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [content]}
    return {**said, "stop_reason": stop, "stop_sequence": None, "usage": counts}


def _texts(content: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _mark(part: Mapping[str, Any]) -> _Mark:
    """Return whether a part has a mark, and its life in seconds."""
    control = part.get("cache_control")
    if not isinstance(control, dict):
        return {"marked": False, "seconds": 0.0}
    return {"marked": True, "seconds": _LIVES[control.get("ttl", "5m")]}


def _plain(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in tool.items() if name != "cache_control"}


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the answer: of the tool that the request chooses, or of the format of its output."""
    choice = body.get("tool_choice") or {}
    for tool in body.get("tools", ()):
        if tool["name"] == choice.get("name"):
            found: Mapping[str, Any] = tool["input_schema"]
            return found
    form = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
    return form.get("schema")
