"""What the `openai` engine sends and reads: constraints as request parameters, usage shared out over prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flightllm.llm.base import Choice, Completion, Constraint, JsonSchema, Regex, Request
from flightllm.llm.bounded_schema import bounded
from flightllm.llm.openai_answers import Answer, Usage

Spelling = dict[str, Any]
"""Request parameters that say one constraint in one of the ways endpoints know."""


def spellings(constraint: Constraint) -> list[Spelling]:
    """Return the ways to say `constraint`, best first; the last says nothing, and the answer is checked by the caller.

    `structured_outputs` is vLLM's; `response_format` is OpenAI's, which most endpoints know.
    """
    match constraint:
        case Choice(options):
            return [_vllm(choice=list(options)), {}]
        case Regex(pattern):
            return [_vllm(regex=pattern), {}]
        case JsonSchema(schema):
            parsed = json.loads(bounded(schema))
            format_ = {"type": "json_schema", "json_schema": {"name": "answer", "schema": parsed}}
            return [{"extra_body": {"response_format": format_}}, _vllm(json=parsed), {}]
        case None:
            return [{}]


def _vllm(**constraint: object) -> Spelling:
    return {"extra_body": {"structured_outputs": constraint}}


def share_out(requests: Sequence[Request], answers: Sequence[Answer], usage: Usage) -> list[Completion]:
    """Make completions of the answers to one HTTP request, whose usage is given in sum: shared by length."""
    prompts = _shares(usage.prompt_tokens, [len(request.prompt) for request in requests])
    cached = _shares(usage.cached_tokens, prompts)
    tokens = usage.completion_tokens
    first = _shares(min(tokens, len(answers)), [1] * len(answers))  # even an empty answer took one token
    rest = _shares(tokens - sum(first), [len(answer.text or "") for answer in answers])
    return [
        Completion(
            request.id,
            answer.text,
            answer.error,
            prompts[place],
            cached[place],
            first[place] + rest[place],
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
        )
        for place, (request, answer) in enumerate(zip(requests, answers, strict=True))
    ]


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Split `total` in proportion to `weights`, in whole numbers that add up to it."""
    whole = sum(weights) or len(weights)
    shares, seen, given = [], 0, 0
    for weight in weights:
        seen += weight if sum(weights) else 1
        shares.append(total * seen // whole - given)
        given += shares[-1]
    return shares
