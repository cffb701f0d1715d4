"""How many tokens the prompts of an aggregate have for texts, and how many notes one prompt combines."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flightllm.engines.extras import extras_of
from flightllm.errors import InvalidInputError
from flightllm.functions.aggregated import COMBINE, EXTRACT, ONE, WRITE
from flightllm.functions.call import AICall
from flightllm.operators.call_context import ModelBinding

UNKNOWN_CONTEXT: Final = 16_384
"""The context of a model about which nothing is known: most models that an endpoint serves have at least this one."""
SEPARATOR_TOKENS: Final = 6
"""The most tokens of a line between two texts, with a number before the next text."""
_NOTE_PART, _RESULT_PART = 8, 4
"""Notes have at most an eighth of the context, and a result a quarter, unless the call sets `max_tokens`."""
_LEAST_TEXTS: Final = 64
"""The fewest tokens for texts in a prompt: with fewer, nearly all of each prompt would be its instruction."""
_HEAD: Final = 64
"""The tokens of a chat format that the engine adds, where its tokenizer is not here."""
_CAUTION: Final = 0.8
"""The part of the context that is used where tokens are estimated."""
_CITED_PART: Final = 1.25
"""Numbers of rows can become longer when notes with citations are combined."""


@dataclass(frozen=True, slots=True)
class Room:
    """The sizes of an aggregate's prompts, which depend on the call and the model, and never on the rows."""

    questions: Mapping[str, AICall]
    """The questions with the token limits of their answers."""
    whole: int
    """The most tokens of the texts of a group that one call answers."""
    leaf: int
    """The most tokens of the texts of a leaf."""
    notes: int
    """The most notes that one call combines."""
    last: int
    """The most notes from which the result is written."""
    context: int
    """The tokens that a prompt can have together with its answer, as far as is known."""


def room_of(call: AICall, binding: ModelBinding) -> Room:
    """Return the sizes of the prompts of an aggregate.

    Raises:
        InvalidInputError: the model's context is too small for the answers.
    """
    if call.over is None:
        raise InvalidInputError(f"{call.text} has no groups")
    context = call.over.option("context_tokens") or _context_of(binding)
    usable = _usable(context, binding)
    questions = dict(call.over.questions)
    if call.over.option("max_tokens") is None:
        for name, part in ((EXTRACT, _NOTE_PART), (COMBINE, _NOTE_PART), (WRITE, _RESULT_PART), (ONE, _RESULT_PART)):
            questions[name] = _limited(questions[name], max(16, usable // part))
    left = {name: usable - _taken(question, binding) for name, question in questions.items()}
    note = max(questions[name].parameters.max_tokens for name in (EXTRACT, COMBINE)) + SEPARATOR_TOKENS
    if call.over.option("citing"):
        note = int(_CITED_PART * note)
    room = Room(questions, left[ONE], left[EXTRACT], left[COMBINE] // note, left[WRITE] // note, context)
    if min(room.whole, room.leaf) < _LEAST_TEXTS or min(room.notes, room.last) < 2:
        told = f"max_tokens => {max(16, usable // 8)}" if call.over.option("max_tokens") else "a shorter instruction"
        raise InvalidInputError(
            f"{call.text}: the model's context of {context:,} tokens is too small for two notes and an answer: write"
            f" {told}, or name a model with a larger context"
        )
    return room


def fitting(question: AICall, binding: ModelBinding, after: str = "") -> Callable[[str], bool]:
    """Return the function that says whether a prompt of a question has room for a text with `after` behind it."""
    left, count = tokens_left(question, binding), binding.engine.count_tokens
    return lambda text: count(text + after) <= left


def tokens_left(question: AICall, binding: ModelBinding) -> int:
    """Return the tokens that a prompt of a question leaves for its texts."""
    return _usable(_context_of(binding), binding) - _taken(question, binding)


def _context_of(binding: ModelBinding) -> int:
    return extras_of(binding.engine).context_tokens or UNKNOWN_CONTEXT


def _usable(context: int, binding: ModelBinding) -> int:
    extras = extras_of(binding.engine)
    exact = extras.has_tokenizer or extras.counts_exactly
    return context if exact or context >= sys.maxsize else int(_CAUTION * context)


def _limited(question: AICall, most: int) -> AICall:
    parameters = question.parameters
    return replace(question, parameters=replace(parameters, max_tokens=min(parameters.max_tokens, most)))


def _taken(question: AICall, binding: ModelBinding) -> int:
    """Return the tokens of a prompt without its texts, and of its answer with the thought before it."""
    engine, parameters = binding.engine, question.parameters
    extras = extras_of(engine)
    prompt = question.prompt([(question.fields[0], "")], prompt_format=binding.prompt_format)
    if extras.has_tokenizer:
        fixed = len(extras.token_ids([prompt])[0]) + SEPARATOR_TOKENS
    else:
        fixed = engine.count_tokens(prompt) + engine.count_tokens(extras.head_of(parameters.constraint)) + _HEAD
    before, after = extras.further_tokens(parameters.constraint)
    thought = 0
    if parameters.reasoning not in {None, "off"}:
        thought = extras.most_thought(str(parameters.reasoning), parameters.max_tokens)
    # an unusable answer is sent again with the question
    answers = parameters.max_tokens * (1 if parameters.constraint is None else 2)
    return fixed + before + after + thought + answers
