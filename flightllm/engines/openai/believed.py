"""Compare the reported tokens of a request with its texts, and estimate tokens that are missing or cannot be true.

An endpoint that reports nothing, zeros or nonsense would make budgets and prices void.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from flightllm.engines.finish_reasons import LENGTH
from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.usage import Usage

_WORDS_OF_A_TOKEN: Final = 8
"""Tokenizers end a token at the end of a word; a few join words, on average fewer than two."""
_CHARACTERS_OF_A_TOKEN: Final = 64
"""Far above the mean of any language: English has about four. Repeated characters count once, as a token can be a line
of dashes or spaces."""
_OF_TEMPLATE: Final = 2_048
"""More tokens than the chat template and a provider's own instructions add to a prompt."""
_OF_ENDS: Final = 64
"""More tokens than an answer has beside its text: marks of its begin and its end."""
_MOST_HIDDEN: Final = 1 << 15
"""The most tokens of a thought that are believed of an endpoint that does not show the thought."""
_REPEATED = re.compile(r"(.)\1+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sent:
    """The texts and limits of one HTTP request, for a comparison with the reported tokens."""

    texts: Sequence[str]
    """The prompts with all messages around them."""
    said: Sequence[list[dict[str, str]]]
    """The messages of each prompt; empty for prompts that are sent as texts."""
    further: Mapping[str, Any]
    """The other parameters: a schema can count as a part of the prompt."""
    estimate: Callable[[], int]
    """Returns the estimated tokens of `texts`."""
    most_answer: int
    """The tokens that each answer can have, thoughts included."""
    allowance: int = 0
    """The part of `most_answer` that is for thoughts."""
    marks: tuple[int, ...] = ()
    """The ends of the marked starts of the text, in characters."""


def believed(usage: Usage, answers: Sequence[EndpointAnswer], sent: Sent, count: Callable[[str], int]) -> Usage:
    """Return the usage with an estimate in place of each number that cannot be true for these texts.

    `count` estimates the tokens of a text. The bounds are wide: a false number passes rather than a true one fails.
    """
    fewest = max(1, sum(map(fewest_tokens, sent.texts)))
    if usage.prompt_tokens < fewest or usage.prompt_tokens > _most_prompt(sent, usage.prompt_tokens):
        usage = replace(usage, prompt_tokens=sent.estimate(), cached_tokens=0, written_tokens=0, estimated=True)
    texts = [f"{one.reasoning}{one.text or one.refusal or ''}" for one in answers]
    most = max(2 * sent.most_answer * len(answers), sum(map(_most_tokens, texts)))
    most += _OF_ENDS * len(answers) + min(usage.reasoning_tokens, _MOST_HIDDEN)
    known = sum(fewest_tokens(text) for text in texts) <= usage.completion_tokens <= most
    if known and (usage.completion_tokens or not usage.estimated):
        return usage
    found = [_estimated_answer(answer, text, sent, count) for answer, text in zip(answers, texts, strict=True)]
    tokens, bound = sum(tokens for tokens, _ in found), sum(bound for _, bound in found)
    return replace(usage, completion_tokens=tokens, reasoning_tokens=0, estimated=True, bound=bound)


def lost(sent: Sent, answers: int) -> Usage:
    """Return the usage of a request that the endpoint took, and whose answers did not come."""
    return Usage(sent.estimate(), estimated=True, bound=sent.most_answer * answers)


def fewest_tokens(text: str) -> int:
    """Return a number of tokens that a text surely has."""
    if not text:
        return 0
    words = len(text.split()) // _WORDS_OF_A_TOKEN
    return max(1, words, len(_REPEATED.sub(r"\1", text)) // _CHARACTERS_OF_A_TOKEN)


def _most_tokens(text: str) -> int:
    """Return a number of tokens that a text surely does not exceed: no token is shorter than a byte."""
    return len(text.encode("utf-8", "surrogatepass"))


def _most_prompt(sent: Sent, enough: int) -> int:
    """Return the most tokens that prompts can have, or a smaller number that is at least `enough`."""
    most = sum(map(_most_tokens, sent.texts)) + _OF_TEMPLATE * len(sent.texts)
    return most if most >= enough else most + _most_tokens(json.dumps(dict(sent.further), default=str))


def _estimated_answer(answer: EndpointAnswer, text: str, sent: Sent, count: Callable[[str], int]) -> tuple[int, int]:
    """Return the estimated tokens of an answer, and the most that it can have."""
    if answer.finish_reason == LENGTH or not text:
        whole = sent.most_answer if answer.finish_reason == LENGTH else 1
        return whole, sent.most_answer
    hidden = 0 if answer.reasoning else sent.allowance
    tokens = count(text) + 1 + hidden
    return tokens, max(tokens, min(_most_tokens(text) + _OF_ENDS + hidden, sent.most_answer))
