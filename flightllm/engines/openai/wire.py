"""Express constraints as request parameters of the `openai` engine, and divide the usage among prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flightllm.engines.bounded_schema import bounded
from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.strict import rooted, strict_schema
from flightllm.engines.openai.usage import Usage
from flightllm.llm.engine import Choice, Completion, Constraint, JsonSchema, Regex, Request

_JSON_TOKENS, _WORDS_TOKENS = 32, 32
"""Additional tokens for an answer inside a JSON object, or inside a sentence."""


@dataclass(frozen=True, slots=True)
class ConstraintForm:
    """One way to express a constraint: keys of the request, words after the prompt, and properties of the answer."""

    way: str
    body: Mapping[str, Any]
    words: str = ""
    wrapped: bool = False
    """Whether the answer is inside a JSON object."""
    enforced: bool = True
    """Whether an endpoint that knows the keys returns only answers that satisfy the constraint."""
    more_tokens: int = 0
    """Additional tokens that the form needs for the answer."""


NOTHING = ConstraintForm("nothing", {}, enforced=False)
"""The form of a request without a constraint."""


def forms(constraint: Constraint, ways: Sequence[str], *, chat: bool) -> list[ConstraintForm]:
    """Return the forms of `ways` that can express `constraint`, the best first.

    For completions, forms with words after the prompt are left out, because a completion must send the caller's prompt
    unchanged. Their last form is empty.
    """
    if constraint is None:
        return [NOTHING]
    found = [form for way in ways if (form := _form(way, constraint)) is not None]
    return found if chat else [*(one for one in found if not one.words), NOTHING]


def _form(way: str, constraint: Choice | JsonSchema | Regex) -> ConstraintForm | None:
    name, value = _plain(constraint)
    match way:
        case "structured":
            return ConstraintForm(way, {"structured_outputs": {name: value}})
        case "guided":
            return ConstraintForm(way, {f"guided_{name}": value})
        case "grammar":
            return ConstraintForm(way, {"grammar": "root ::= " + " | ".join(map(json.dumps, value))})
        case "pattern":
            return ConstraintForm(way, {"regex": _pattern(constraint)})
        case "tgi_pattern":
            return ConstraintForm(way, {"response_format": {"type": "regex", "value": _pattern(constraint)}})
        case "tgi_object":
            return ConstraintForm(way, {"response_format": {"type": "json_object", "value": value}})
        case "object":
            wrapped = name != "json" or rooted(value)[1]
            words = f"\n\nAnswer with a JSON object alone. {_told(constraint, json_=True)}"
            return ConstraintForm(
                way, {"response_format": {"type": "json_object"}}, words, wrapped, more_tokens=_JSON_TOKENS
            )
        case "words":
            return ConstraintForm(
                way, {}, f"\n\n{_told(constraint, json_=False)}", enforced=False, more_tokens=_WORDS_TOKENS
            )
        case _:
            return _schema_form(way, constraint)


def _plain(constraint: Choice | JsonSchema | Regex) -> tuple[str, Any]:
    """Return a constraint as vLLM's parameter name and value."""
    match constraint:
        case Choice(options):
            return "choice", list(options)
        case Regex(pattern):
            return "regex", pattern
        case JsonSchema(schema):
            return "json", json.loads(bounded(schema))


def _schema_form(way: str, constraint: Choice | JsonSchema | Regex) -> ConstraintForm | None:
    """Return a form with `response_format` and a schema; for the way `strict`, a schema of OpenAI's strict mode."""
    schema, wrapped = schema_of(constraint)
    if way == "strict":
        rooted_schema, inner = rooted(schema)
        strict = strict_schema(rooted_schema)
        if strict is None:
            return None
        given = {"name": "answer", "schema": strict, "strict": True}
        return ConstraintForm(
            way, _response_format(given), wrapped=wrapped or inner, more_tokens=_JSON_TOKENS * (wrapped or inner)
        )
    given = {"name": "answer", "schema": schema}
    return ConstraintForm(way, _response_format(given), wrapped=wrapped, more_tokens=_JSON_TOKENS * wrapped)


def _response_format(json_schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": dict(json_schema)}}


def schema_of(constraint: Choice | JsonSchema | Regex) -> tuple[dict[str, Any], bool]:
    """Return a constraint as a JSON Schema, and whether the schema wraps the value into an object."""
    match constraint:
        case Choice(options):
            inner: dict[str, Any] = {"type": "string", "enum": list(options)}
        case Regex(pattern):
            inner = {"type": "string", "pattern": f"^(?:{pattern})$"}
        case JsonSchema(schema):
            return json.loads(bounded(schema)), False
    return rooted(inner)


def _told(constraint: Choice | JsonSchema | Regex, *, json_: bool) -> str:
    match constraint:
        case Choice(options):
            listed = ", ".join(json.dumps(one, ensure_ascii=False) for one in options)
            if json_:
                return f'Its key "answer" has one of these texts: {listed}.'
            return f"Answer with exactly one of these and nothing else: {listed}."
        case Regex(pattern):
            begin = 'Its key "answer" has a text' if json_ else "Answer with nothing but a text"
            return f"{begin} that fits the regular expression {pattern}"
        case JsonSchema(schema):
            document = json.loads(schema)
            shown = json.dumps(rooted(document)[0] if json_ else document, ensure_ascii=False, separators=(",", ":"))
            return (
                f"It follows this JSON Schema: {shown}" if json_ else f"Answer with JSON alone, by this schema: {shown}"
            )


def _pattern(constraint: Choice | JsonSchema | Regex) -> str:
    match constraint:
        case Choice(options):
            return f"({'|'.join(map(re.escape, options))})"
        case Regex(pattern):
            return pattern
        case JsonSchema():
            raise ValueError("a JSON Schema cannot be a regular expression")


def with_reasoning(usage: Usage, answers: Sequence[EndpointAnswer]) -> Usage:
    """Return a usage with tokens of thoughts; if the endpoint reports none, by the share of the thoughts' length."""
    thought = sum(len(answer.reasoning) for answer in answers)
    if usage.reasoning_tokens or not thought:
        return usage
    written = thought + sum(len(answer.text or "") for answer in answers)
    return replace(usage, reasoning_tokens=usage.completion_tokens * thought // written)


def share_out(requests: Sequence[Request], answers: Sequence[EndpointAnswer], usage: Usage) -> list[Completion]:
    """Return the completions for the answers to one HTTP request; its total usage is divided by the texts' lengths."""
    prompts = _shares(usage.prompt_tokens, [len(request.prompt) for request in requests])
    cached = _shares(usage.cached_tokens, prompts)
    written = _shares(usage.written_tokens, prompts)
    tokens = usage.completion_tokens
    first = _shares(min(tokens, len(answers)), [1] * len(answers))  # even an empty answer took one token
    rest = _shares(tokens - sum(first), [len(answer.text or "") for answer in answers])
    bounds = _shares(usage.most_completion_tokens, [first[p] + rest[p] for p in range(len(answers))])
    reasoning = _shares(usage.reasoning_tokens, [len(answer.reasoning) for answer in answers])
    return [
        Completion(
            request.id,
            answer.text,
            answer.error,
            prompts[place],
            cached[place],
            first[place] + rest[place],
            answer.probabilities,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
            reasoning_tokens=reasoning[place],
            estimated=usage.estimated,
            most_completion_tokens=bounds[place],
            written_tokens=written[place],
        )
        for place, (request, answer) in enumerate(zip(requests, answers, strict=True))
    ]


def usage_of(completion: Completion) -> Usage:
    """Return a completion's share of the usage."""
    return Usage(
        completion.prompt_tokens,
        completion.cached_tokens,
        completion.completion_tokens,
        completion.reasoning_tokens,
        completion.estimated,
        completion.written_tokens,
        completion.most_completion_tokens,
    )


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Return `total` split in proportion to `weights`, in whole numbers that add up to `total`.

    With `total` 10 and `weights` 1, 1 and 2:

    | weight | cumulative share of `total` | share |
    |---|---|---|
    | 1 | 10 · 1 // 4 = 2 | 2 |
    | 1 | 10 · 2 // 4 = 5 | 3 |
    | 2 | 10 · 4 // 4 = 10 | 5 |
    """
    whole = sum(weights) or len(weights)
    shares, seen, given = [], 0, 0
    for weight in weights:
        seen += weight if sum(weights) else 1
        shares.append(total * seen // whole - given)
        given += shares[-1]
    return shares
