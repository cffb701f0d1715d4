"""A decision endpoint on loopback: it checks each body by the documented rules, and answers from a table of words.

The rules are those of OpenAI's `/decisions` (package `openai`, `decision_create_params`) and of System One's map of
questions. The bodies of its answers have the shape that the package's type `Decision` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

_KEYS = {
    "predicate": {"type", "name", "instructions"},
    "choice": {"type", "name", "instructions", "choices"},
    "score": {"type", "name", "instructions", "levels"},
}
_MAPPED = {
    "noul": {"type", "instructions"},
    "choice": {"type", "instructions", "criteria"},
    "score": {"type", "instructions", "criteria"},
}
Change = Callable[[list[dict[str, Any]]], Any]


@dataclass
class Rules:
    """What the endpoint takes, and how it deviates."""

    questions: int = 200
    choices: int = 255
    levels: int = 10
    refuses: str = ""
    """It declines to answer questions whose instructions have this word."""
    rejects: str = ""
    """It rejects the whole request if instructions have this word."""
    change: Change = lambda answers: answers
    """Changes the list of answers, or their map."""
    first: list[Reply] = field(default_factory=list)
    """Its first replies, in place of answers."""
    output_tokens: int = 0
    further: set[str] = field(default_factory=set)
    """Further keys that a body can have."""


def broken_rule(body: Body, rules: Rules) -> str:
    """Return which documented rule of `/decisions` a body breaks; empty if none."""
    if unknown := set(body) - {"model", "input", "questions", "prompt_cache_key", "safety_identifier"} - rules.further:
        return f"Unknown parameter: {min(unknown)!r}."
    if not isinstance(body["input"], str) or not body["input"]:
        return "input must be a text that is not empty"
    if not 1 <= len(body["questions"]) <= rules.questions:
        return f"questions: expected 1 to {rules.questions}, got {len(body['questions'])}"
    for one in body["questions"]:
        if one["type"] not in _KEYS or set(one) != _KEYS[one["type"]] or not one["instructions"]:
            return f"a question has the keys {sorted(one)}"
        values = [choice["value"] for choice in one.get("choices", ())]
        if one["type"] == "choice" and (not 2 <= len(values) <= rules.choices or len(set(values)) < len(values)):
            return f"choices: expected 2 to {rules.choices} unique values, got {len(values)}"
        if one["type"] == "score" and not 2 <= len(one["levels"]) <= rules.levels:
            return f"levels: expected 2 to {rules.levels}"
        if rules.rejects and rules.rejects in one["instructions"]:
            return "the question is too long"
    return ""


def broken_rule_of_map(body: Body, rules: Rules) -> str:
    """Return which rule of `/systemone` a body breaks; empty if none."""
    if set(body) != {"model", "state", "questions"} or not body["state"]:
        return f"the body has the keys {sorted(body)}"
    if not 1 <= len(body["questions"]) <= rules.questions:
        return "too many questions"
    for one in body["questions"].values():
        if one["type"] not in _MAPPED or set(one) != _MAPPED[one["type"]]:
            return f"a question has the keys {sorted(one)}"
        if one["type"] == "choice" and set(one["criteria"].values()) != {None}:
            return "criteria of a choice are a map of descriptions"
    return ""


def weights(content: str, options: list[str]) -> list[float]:
    """Return probabilities that depend on the content: an option that it names is likely."""
    found = [8.0 if option.casefold() in content.casefold().split() else 1.0 for option in options]
    return [one / sum(found) for one in found]


def true_of(content: str, instructions: str) -> float:
    """Return whether the content has the last word of the question's first line."""
    word = instructions.splitlines()[0].rstrip("?").split()[-1]
    return 0.9 if word in content.split() else 0.2


def decide(path: str, body: Body, rules: Rules) -> Reply:
    """Answer a request by the rules of its path."""
    if path.endswith(("/systemone", "/api/alpha/decisions")):
        if why := broken_rule_of_map(body, rules):
            return refuse(422, why)
        return _map_reply(body)
    if not path.endswith("/decisions"):
        return refuse(404, "Not Found")
    if why := broken_rule(body, rules):
        return refuse(400, why)
    answers = [_listed(body["input"], one, rules) for one in body["questions"]]
    return 200, {"model": body["model"], "answers": rules.change(answers), "usage": _usage(body, rules)}, {}


def _listed(content: str, asked: dict[str, Any], rules: Rules) -> dict[str, Any]:
    name = {"name": asked["name"]}
    if rules.refuses and rules.refuses in asked["instructions"]:
        return {"type": "refusal", **name}
    if asked["type"] == "predicate":
        return {"type": "predicate", **name, "probability": true_of(content, asked["instructions"])}
    if asked["type"] == "choice":
        values = [one["value"] for one in asked["choices"]]
        likely = weights(content, values)
        listed = [{"value": v, "probability": round(p, 4)} for v, p in zip(values, likely, strict=True)]
        best = values[likely.index(max(likely))]
        return {"type": "choice", **name, "choice": best, "confidence": max(likely), "probabilities": listed}
    labels = [one["label"] for one in asked["levels"]]
    likely = weights(content, labels)
    levels = [{"value": i, "label": labels[i], "probability": p} for i, p in enumerate(likely)]
    score = sum(i * p for i, p in enumerate(likely))
    return {"type": "score", **name, "score": score, "confidence": max(likely), "probabilities": levels}


def _map_reply(body: Body) -> Reply:
    answers: dict[str, Any] = {}
    for name, asked in body["questions"].items():
        if asked["type"] == "noul":
            answers[name] = {"type": "noul", "noul": true_of(body["state"], asked["instructions"])}
            continue
        options = list(asked["criteria"])
        likely = weights(body["state"], options)
        if asked["type"] == "choice":
            best = options[likely.index(max(likely))]
            answers[name] = {"type": "choice", "choice": best, "probabilities": dict(zip(options, likely, strict=True))}
        else:
            levels = {str(i): p for i, p in enumerate(likely)}
            score = sum(i * p for i, p in enumerate(likely))
            answers[name] = {
                "type": "score",
                "score": score,
                "probabilities": levels,
                "legend": dict(enumerate(options)),
            }
    return 200, {"model": body["model"], "answers": answers, "usage": {"input_tokens": 50, "output_tokens": 0}}, {}


def billed(body: Body) -> int:
    """Return the tokens of a body: the content once, and each question. Each word and each mark is a token."""
    asked = [one["instructions"] for one in body["questions"]]
    labels = [choice["value"] for one in body["questions"] for choice in one.get("choices", ())]
    labels += [level["label"] for one in body["questions"] for level in one.get("levels", ())]
    return len(re.findall(r"\w+|[^\w\s]", "\n".join([body["input"], *asked, *labels])))


def _usage(body: Body, rules: Rules) -> dict[str, Any]:
    tokens = billed(body)
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": rules.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + rules.output_tokens,
    }


@contextmanager
def decision_endpoint(rules: Rules | None = None) -> Iterator[Endpoint]:
    """Run a decision endpoint."""
    rules = rules or Rules()

    def behave(path: str, body: Body, number: int) -> Reply:
        return rules.first[number] if number < len(rules.first) else decide(path, body, rules)

    with endpoint_of(behave) as endpoint:
        endpoint.models = [{"id": "gpt-6-luna", "object": "model", "owned_by": "system"}]
        yield endpoint
