"""Parse the bodies of a decision endpoint, without trust in any value: one answer or error for each question.

An answer of a list belongs to the question of its name, or else of its place. See `decision_questions` for the sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flightllm.common.text import excerpt
from flightllm.engines.openai.answers import EndpointAnswer, MalformedError, read_document
from flightllm.engines.openai.decision_questions import Kind, Question, names_of
from flightllm.engines.openai.usage import Usage, read_usage

_ROUNDING: Final = 0.005
"""The most by which rounding moves one probability: some endpoints send two decimals."""
_DRIFT: Final = 0.01
"""The most by which a sum of probabilities can miss 1 beside that."""
_USAGE: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_DETAILS: Final = {"prompt_tokens_details": "input_tokens_details"}
_KINDS: Final = {"predicate": Kind.PREDICATE, "noul": Kind.PREDICATE, "choice": Kind.CHOICE, "score": Kind.SCORE}
_DECLINED: Final = "the model declined to answer"


def read_decisions(body: bytes, questions: Sequence[Question]) -> tuple[list[EndpointAnswer], Usage]:
    """Return the answer to each question, and the tokens of the request.

    Raises:
        MalformedError: the body is not an answer to decisions.
    """
    document = read_document(body)
    found = document.get("answers")
    if isinstance(found, dict):
        answers = [found.get(name) for name in names_of(questions)]
    elif isinstance(found, list):
        answers = _in_order(found, names_of(questions))
    else:
        raise MalformedError("answers is neither a list nor an object")
    return [_answer(one, question) for one, question in zip(answers, questions, strict=True)], _usage(document)


def _in_order(found: Sequence[object], names: Sequence[str]) -> list[object]:
    """Return the answers in the order of the questions; None for a question without an answer.

    Raises:
        MalformedError: two answers have one name, or answers without names are fewer or more than the questions.
    """
    given = [one.get("name") if isinstance(one, dict) else None for one in found]
    if any(given):
        known = [name for name in given if name is not None]
        if len(set(known)) < len(known) or not set(known) <= set(names) or None in given:
            raise MalformedError("the names of the answers are not those of the questions")
        by_name = dict(zip(known, found, strict=True))
        return [by_name.get(name) for name in names]
    if len(found) != len(names):
        raise MalformedError(f"answers has {len(found)} items without names for {len(names)} questions")
    return list(found)


def _usage(document: Mapping[str, Any]) -> Usage:
    """Return the reported tokens, which have the names of OpenAI's responses, or those of its chats."""
    given = document.get("usage")
    if not isinstance(given, dict):
        return Usage()
    renamed = {old: given[new] for old, new in (_USAGE | _DETAILS).items() if new in given}
    return read_usage({"usage": given | renamed})


def _answer(found: object, question: Question) -> EndpointAnswer:
    if not isinstance(found, dict):
        return _error("returned no answer to this question")
    if found.get("type") == "refusal":
        return EndpointAnswer(None, f"the model refused: {_DECLINED}", refusal=_DECLINED)
    kind = found.get("type")
    if _KINDS.get(kind if isinstance(kind, str) else "") is not question.kind:
        said = excerpt(str(kind), 40)
        return _error(f"answered a question of the type {question.kind.value} with the type {said!r}")
    match question.kind:
        case Kind.PREDICATE:
            return _truth(found, question.options)
        case Kind.CHOICE:
            return _choice(found, question.options)
        case Kind.SCORE:
            return _score(found, question.options)


def _truth(found: Mapping[str, Any], options: Sequence[str]) -> EndpointAnswer:
    true = _number(found.get("probability", found.get("noul")))
    if true is None or true > 1:
        return _error("returned a probability that is not a number from 0 to 1")
    return EndpointAnswer(options[0 if true >= 0.5 else 1], probabilities=(true, 1 - true))


def _choice(found: Mapping[str, Any], options: Sequence[str]) -> EndpointAnswer:
    likely = _probabilities(found.get("probabilities"), options)
    chosen = found.get("choice")
    if isinstance(chosen, str) and chosen in options:
        return EndpointAnswer(chosen, probabilities=likely)
    if chosen is None and likely is not None:
        return EndpointAnswer(options[likely.index(max(likely))], probabilities=likely)
    return _error(f"chose {excerpt(str(chosen), 80)!r}, which is not an option")


def _score(found: Mapping[str, Any], options: Sequence[str]) -> EndpointAnswer:
    """Return the most probable level; without probabilities, the level next to the score."""
    levels = [str(place) for place in range(len(options))]
    likely = _probabilities(found.get("probabilities"), options, levels)
    if likely is not None:
        return EndpointAnswer(options[likely.index(max(likely))], probabilities=likely)
    score = _number(found.get("score"))
    if score is None or score > len(options) - 1:
        return _error("returned a score that is not between the first and the last level")
    return EndpointAnswer(options[math.floor(score + 0.5)])


def _probabilities(
    found: object, options: Sequence[str], levels: Sequence[str] | None = None
) -> tuple[float, ...] | None:
    """Return the probability of each option, with the sum 1; None if the endpoint does not tell it.

    The body has an object by option, or a list with `value` and `probability`. A score's values are the numbers of
    `levels`. An option that is missing has the probability 0, if the sum allows it.
    """
    places = {name: place for place, name in enumerate(levels or options)}
    if isinstance(found, dict):
        pairs = list(found.items())
    elif isinstance(found, list) and all(isinstance(one, dict) for one in found):
        pairs = [(one.get("value"), one.get("probability")) for one in found]
    else:
        return None
    likely: list[float | None] = [None] * len(options)
    for value, given in pairs:
        number = _number(given)
        plain = isinstance(value, str) or (levels is not None and type(value) is int)
        place = places.get(str(value)) if plain else None
        if number is None or place is None or likely[place] is not None:
            return None
        likely[place] = number
    numbers = [one or 0.0 for one in likely]
    total = math.fsum(numbers)
    if abs(total - 1) > _DRIFT + _ROUNDING * len(options) or not total:
        return None
    return tuple(one / total for one in numbers)


def _number(value: object) -> float | None:
    """Return a finite number of at least 0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


def _error(what: str) -> EndpointAnswer:
    return EndpointAnswer(None, f"the endpoint {what}", passes=True)
