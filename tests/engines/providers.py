"""Endpoints that behave as providers document it: a model that answers rightly, behind each one's quirks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

THOUGHT = "The user asks whether it fits. Yes or No? Let me think about both."
Quirk = Callable[[Body], Reply | None]


@dataclass(frozen=True)
class Quirks:
    """How an endpoint differs. `refusals` are asked first; `says` words the answer, `thinks` puts thoughts to it."""

    name: str
    refusals: tuple[Quirk, ...] = ()
    honours: tuple[str, ...] = ()
    """Of `structured_outputs`, `guided`, `json_schema`, `json_object`, `regex`, `grammar`: others are ignored."""
    says: Callable[[str], str] = str
    thinks: str = ""
    """`content` or a field's name; empty: it does not think."""
    quiet: Callable[[Body], bool] = lambda _: False
    """Whether a request switches thinking off."""
    thought_tokens: int = 0
    usage: bool = True
    parts: bool = False
    owner: str = ""
    model: str = "any"
    options: tuple[tuple[str, object], ...] = ()


def named(key: str, message: str, *, status: int = 400, when: Callable[[Any], bool] = lambda _: True) -> Quirk:
    """Refuse a key of the request, in words."""
    return lambda body: refuse(status, message) if key in body and when(body[key]) else None


def answer_of(body: Body, quirks: Quirks) -> str:
    """Return what the model says: right, and in the form that the request asks for where the endpoint knows it."""
    prompt = body["messages"][-1]["content"]
    asked = body.get("response_format", {})
    kind, choice = asked.get("type", ""), body.get("structured_outputs", {}).get("choice")
    choice = choice if "structured_outputs" in quirks.honours else None
    if "guided" in quirks.honours:
        choice = choice or body.get("guided_choice")
    if "grammar" in quirks.honours and "grammar" in body:
        choice = re.findall(r'"(\w+)"', body["grammar"])
    pattern = body.get("regex") if "regex" in quirks.honours else None
    if kind == "regex" and "tgi" in quirks.honours:
        pattern = asked["value"]
    if pattern is not None:
        choice = pattern.strip("()").split("|")
    if choice:
        return right(prompt, choice)
    if kind == "json_schema" and "json_schema" in quirks.honours:
        return json.dumps(filled(asked["json_schema"]["schema"], prompt))
    if kind == "json_object" and "json_object" in quirks.honours:
        options = re.findall(r'"answer" has one of these texts: (.*)\.$', prompt)
        if options:
            return json.dumps({"answer": right(prompt, json.loads(f"[{options[0]}]"))})
        return json.dumps({"city": "Rome", "year": "1999"})
    return quirks.says(loose(prompt))


def right(prompt: str, options: list[str]) -> str:
    """Choose an option by what the prompt is about."""
    wanted = {"Yes", "positive", "8"} if "wonderful" in prompt else {"No", "negative", "2"}
    return next((one for one in options if one in wanted), options[0])


def filled(schema: Body, prompt: str) -> Any:
    """Fill in a schema."""
    if "enum" in schema:
        return right(prompt, schema["enum"])
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], prompt)
    if schema.get("type") == "object":
        return {name: filled(part, f"{name} {prompt}") for name, part in schema["properties"].items()}
    return "Rome" if prompt.startswith("city") else "1999" if prompt.startswith("year") else "something"


def loose(prompt: str) -> str:
    """Answer in plain words."""
    good = "wonderful" in prompt
    if '"city"' in prompt:
        return json.dumps({"city": "Rome", "year": "1999"})
    if "positive" in prompt and "negative" in prompt:
        return "positive" if good else "negative"
    if "0 to 10" in prompt or '"10"' in prompt:
        return "8" if good else "2"
    if "Yes" in prompt:
        return "Yes" if good else "No"
    return "A short text."


def reply(body: Body, quirks: Quirks) -> Reply:
    """Answer one request."""
    for quirk in quirks.refusals:
        if (refused := quirk(body)) is not None:
            return refused
    text, reason = answer_of(body, quirks), "stop"
    most = body.get("max_completion_tokens") or body.get("max_tokens") or 16
    message: Body = {"role": "assistant", "content": text}
    thinks = bool(quirks.thinks) and not quirks.quiet(body)
    spent = quirks.thought_tokens if thinks else 0
    if thinks and spent >= most:
        text, reason = "", "length"
    if thinks and quirks.thinks == "content":
        message["content"] = f"<think>\n{THOUGHT}" + (f"\n</think>\n\n{text}" if text else "")
    elif thinks:
        message |= {"content": text or None, quirks.thinks: THOUGHT}
    if quirks.parts and message["content"]:
        message["content"] = [{"type": "text", "text": message["content"]}]
    usage = {"prompt_tokens": 20, "completion_tokens": spent + 4, "total_tokens": spent + 24}
    details = {"completion_tokens_details": {"reasoning_tokens": spent}} if quirks.thinks != "content" else {}
    found = {"id": "1", "choices": [{"index": 0, "finish_reason": reason, "message": message}]}
    return 200, {**found, **({"usage": {**usage, **details}} if quirks.usage else {})}, {}


@contextmanager
def provider(quirks: Quirks) -> Iterator[Endpoint]:
    """Run an endpoint with quirks."""
    with endpoint_of(lambda _path, body, _number: reply(body, quirks)) as endpoint:
        if quirks.owner:
            endpoint.models = [{"id": quirks.model, "object": "model", "owned_by": quirks.owner}]
        yield endpoint


def effort_of(body: Body) -> bool:
    """Return whether an effort switches thinking off."""
    return body.get("reasoning_effort") == "none"


def template_off(body: Body) -> bool:
    """Return whether the chat template is told not to think."""
    return body.get("chat_template_kwargs", {}).get("enable_thinking") is False


def openrouter_off(body: Body) -> bool:
    """Return whether OpenRouter is told not to think."""
    return bool(body.get("reasoning", {}).get("effort") == "none")


_GPT5 = (
    named("max_tokens", "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
    named(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) is supported.",
        when=lambda value: value != 1,
    ),
    named(
        "reasoning_effort",
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
        when=lambda value: value == "none",
    ),
    named("structured_outputs", "Unrecognized request argument supplied: structured_outputs"),
)


def _not_strict(body: Body) -> Reply | None:
    """Refuse as OpenAI does a strict schema with an optional property or a keyword that strict mode lacks."""
    given = body.get("response_format", {}).get("json_schema", {})
    if not given.get("strict"):
        return None
    text, schema = json.dumps(given["schema"]), given["schema"]
    closed = schema.get("additionalProperties") is False and set(schema["required"]) == set(schema["properties"])
    if schema.get("type") == "object" and closed and "maxLength" not in text:
        return None
    return refuse(400, "Invalid schema for response_format 'answer': 'required' must include every key")


PROVIDERS = (
    Quirks("openai gpt-4.1", (_GPT5[3], _not_strict), ("json_schema",), options=(("provider", "openai"),)),
    Quirks(
        "openai gpt-5-nano",
        (*_GPT5, _not_strict),
        ("json_schema",),
        thinks="nowhere",
        thought_tokens=300,
        model="gpt-5-nano",
        options=(("provider", "openai"),),
    ),
    Quirks("a gateway before gpt-5", _GPT5, ("json_schema",), thinks="nowhere", thought_tokens=300, model="assistant"),
    Quirks("vllm", honours=("structured_outputs", "json_schema"), owner="vllm"),
    Quirks("vllm 0.8", honours=("guided", "json_schema"), says=lambda text: f"I would say {text}", owner="vllm"),
    Quirks(
        "vllm, qwen3",
        honours=("structured_outputs", "json_schema"),
        thinks="reasoning_content",
        quiet=template_off,
        thought_tokens=200,
        owner="vllm",
        model="Qwen/Qwen3-8B",
    ),
    Quirks("sglang", honours=("regex", "json_schema"), says=lambda text: f"It is {text}", owner="sglang"),
    Quirks("ollama", honours=("json_schema",), says=lambda text: f"I would say {text}", owner="library", usage=False),
    Quirks(
        "ollama, thinking",
        honours=("json_schema",),
        thinks="reasoning",
        quiet=effort_of,
        thought_tokens=500,
        owner="library",
        model="qwen3:8b",
    ),
    Quirks("llama.cpp", honours=("grammar", "json_schema"), says=lambda text: f"Sure: {text}", owner="llamacpp"),
    Quirks("lm studio", (named("structured_outputs", "unknown key"),), ("json_schema",), owner="organization_owner"),
    Quirks(
        "tgi",
        (named("structured_outputs", "no", status=422),),
        ("tgi", "json_schema"),
        says=lambda text: f"I think {text}",
        options=(("provider", "tgi"),),
    ),
    Quirks(
        "groq",
        (
            named(
                "response_format",
                "This model does not support response format `json_schema`.",
                when=lambda given: given["type"] == "json_schema",
            ),
        ),
        ("json_object",),
        says=lambda text: f"Well, {text}",
        options=(("provider", "groq"),),
    ),
    Quirks(
        "deepseek",
        (named("response_format", "unavailable now", when=lambda given: given["type"] == "json_schema"),),
        ("json_object",),
        says=lambda text: f"Well, {text}",
        options=(("provider", "deepseek"),),
    ),
    Quirks(
        "openrouter",
        honours=("json_schema",),
        thinks="reasoning",
        quiet=openrouter_off,
        thought_tokens=300,
        model="qwen/qwen3-8b",
        options=(("provider", "openrouter"),),
    ),
    Quirks("mistral", honours=("json_schema",), parts=True, options=(("provider", "mistral"),)),
    Quirks("anthropic", says=lambda text: f"**{text}**", options=(("provider", "anthropic"),)),
    Quirks(
        "fences", says=lambda text: f"Sure! Here is it:\n```json\n{text}\n```" if text[0] == "{" else f"Answer: {text}"
    ),
    Quirks("json for all", says=lambda text: text if text[0] == "{" else json.dumps({"answer": text})),
    Quirks("thinks in content", thinks="content", thought_tokens=200, says=lambda text: f"{text}."),
)
"""One row each; see `Quirks`."""
