"""Turn the requests of AI functions into the typed questions of a decision endpoint, and questions into request bodies.

A decision endpoint reads one content, and answers typed questions about it with probabilities. It writes no text.
Two forms of requests are in use. OpenAI's `/decisions` takes a list of questions, and so do SGLang, Fireworks and
Vercel. `/systemone` takes a map of questions by name, and so do the decisions of OpenRouter and Perplexity.

Sources: the types `decision_create_params` of the package `openai` 3.57, and the public documentation of Fireworks
(`post-decisions`, `post-systemone`), OpenRouter (`/api/alpha/decisions`), Perplexity, SGLang and vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from flightllm.llm.engine import Choice, Constraint, Request
from flightllm.llm.prompt_formats import field_line, one_text

_FILTERS: Final = frozenset({"ai_filter"})
"""The functions whose question is whether something is so; of `Yes` and `No`, they mean the truth."""
_RATINGS: Final = frozenset({"ai_score"})
"""The functions whose options are the levels of one scale. Other functions can have numbers as mere names."""
_YES_NO: Final = ("Yes", "No")


class Kind(Enum):
    """The type of a question; the value is its name at `/decisions`."""

    PREDICATE = "predicate"
    CHOICE = "choice"
    SCORE = "score"


class Shape(Enum):
    """The form of requests and answers."""

    LIST = "list"
    """OpenAI's: a list of questions about `input`."""
    MAP = "map"
    """System One's: a map of questions about `state`."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The requests that an endpoint takes: the path after the base URL or a whole address, the form, and the limits."""

    path: str
    shape: Shape
    questions: int
    """The most questions in one request."""
    choices: int
    """The most options of a choice."""
    levels: int = 10
    """The most levels of a score."""


@dataclass(frozen=True, slots=True)
class Question:
    """One typed question; `options` are those of the request's `Choice`, in their order."""

    kind: Kind
    instructions: str
    options: tuple[str, ...]


def dialect_of(api: str, provider: str, address: str) -> Dialect:
    """Return the requests that an endpoint takes, by the option `api`, the provider's name and the base URL."""
    if api == "systemone":
        return Dialect("/systemone", Shape.MAP, questions=64, choices=255)
    parts = urlsplit(address)
    if provider == "openrouter":
        return Dialect(f"{parts.scheme}://{parts.netloc}/api/alpha/decisions", Shape.MAP, questions=64, choices=255)
    if (parts.hostname or "").endswith("perplexity.ai"):
        return Dialect("/decisions", Shape.MAP, questions=128, choices=255)
    return Dialect("/decisions", Shape.LIST, questions=200, choices=208 if provider == "fireworks" else 255)


def content_of(request: Request) -> str:
    """Return what the question of a request is about: a line for each field; without fields, the whole prompt."""
    if not request.fields:
        return one_text(request.prompt)
    return "".join(field_line(name, value) for name, value in request.fields).removesuffix("\n")


def unanswerable(constraint: Constraint, dialect: Dialect) -> str:
    """Return why a decision endpoint cannot answer a call; empty if it can."""
    if not isinstance(constraint, Choice):
        return (
            "a decision endpoint writes no text: it answers only ai_filter, ai_classify with one label, ai_sentiment, "
            "and ai_score with up to 101 numbers"
        )
    if len(constraint.options) > dialect.choices:
        options = len(constraint.options)
        return f"a decision endpoint takes at most {dialect.choices} options, and this call has {options:,}"
    return ""


def question_of(request: Request, dialect: Dialect, system_prompt: str = "") -> Question:
    """Return the question of a request whose constraint is a `Choice`; `system_prompt` precedes its instructions."""
    constraint = request.parameters.constraint
    options = constraint.options if isinstance(constraint, Choice) else ()
    asked = request.instruction or one_text(request.prompt)
    instructions = f"{system_prompt}\n\n{asked}" if system_prompt else asked
    if request.function in _FILTERS and options == _YES_NO:
        return Question(Kind.PREDICATE, instructions, options)
    if request.function in _RATINGS and len(options) <= dialect.levels:
        return Question(Kind.SCORE, instructions, options)
    return Question(Kind.CHOICE, instructions, options)


def names_of(questions: Sequence[Question]) -> list[str]:
    """Return a name for each question of one request, by its place."""
    return [f"q{place}" for place in range(1, len(questions) + 1)]


def body_of(model: str, content: str, questions: Sequence[Question], shape: Shape) -> dict[str, Any]:
    """Return the body of a request with some questions about one content."""
    named = zip(names_of(questions), questions, strict=True)
    if shape is Shape.MAP:
        return {"model": model, "state": content, "questions": {name: _mapped(one) for name, one in named}}
    return {"model": model, "input": content, "questions": [_listed(name, one) for name, one in named]}


def text_of(content: str, questions: Sequence[Question]) -> str:
    """Return all that the endpoint reads, in the order in which it reads it: the content is the shared start."""
    return "\n".join([content, *map(question_text, questions)])


def question_text(question: Question) -> str:
    """Return what one question adds to the content. The options of a predicate are not sent."""
    listed = () if question.kind is Kind.PREDICATE else question.options
    return "\n".join((question.instructions, *listed))


def _listed(name: str, question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {"type": question.kind.value, "name": name, "instructions": question.instructions}
    if question.kind is Kind.CHOICE:
        asked["choices"] = [{"value": option} for option in question.options]
    elif question.kind is Kind.SCORE:
        asked["levels"] = [{"label": option} for option in question.options]
    return asked


def _mapped(question: Question) -> dict[str, Any]:
    match question.kind:
        case Kind.PREDICATE:
            return {"type": "noul", "instructions": question.instructions}
        case Kind.CHOICE:
            criteria: Any = dict.fromkeys(question.options)
        case Kind.SCORE:
            criteria = list(question.options)
    return {"type": question.kind.value, "instructions": question.instructions, "criteria": criteria}
