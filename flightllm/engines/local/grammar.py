"""Constrain generated text to a JSON Schema or a regular expression, token by token, with llguidance."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import llguidance.hf
import numpy as np
import torch

from flightllm.errors import AICallError
from flightllm.llm.engine import JsonSchema, Regex
from flightllm.llm.tokenizer import PromptEncoder

_CLOSERS = ('"', "}", "]", ",")  # the quote is first: inside a string, the others are plain text


class Grammars:
    """A compiler and cache of constraints for one tokenizer: call sites repeat their constraint for every batch."""

    def __init__(self, encoder: PromptEncoder, vocabulary: int) -> None:
        self._encoder = encoder
        self._tokenizer = llguidance.hf.from_tokenizer(encoder.tokenizer, n_vocab=vocabulary)
        self._vocabulary = vocabulary
        single = [encoder.continuation(text) for text in _CLOSERS]
        self._closers = [encoder.tokenizer.eos_token_id, *(ids[0] for ids in single if len(ids) == 1)]
        self._compiled: dict[JsonSchema | Regex, tuple[llguidance.LLMatcher, int]] = {}

    def row(self, constraint: JsonSchema | Regex, max_tokens: int) -> GrammarRow:
        """Return the initial state of one row under `constraint`.

        Raises:
            AICallError: the schema or pattern uses a feature that llguidance does not support.
        """
        if constraint not in self._compiled:
            self._compiled[constraint] = self._compile(constraint)
        matcher, reserve = self._compiled[constraint]
        return GrammarRow(matcher.deep_copy(), self._closers, self._vocabulary, max_tokens - reserve)

    def _compile(self, constraint: JsonSchema | Regex) -> tuple[llguidance.LLMatcher, int]:
        if isinstance(constraint, Regex):
            grammar, reserve = llguidance.LLMatcher.grammar_from_regex(constraint.pattern), 4
        else:
            # Without optional whitespace, a weak model cannot generate blanks up to the token limit.
            options: Any = {"whitespace_flexible": False}
            grammar = llguidance.LLMatcher.grammar_from_json_schema(constraint.schema, defaults=options)
            skeleton = _skeleton(json.loads(constraint.schema))
            # The forced end writes each closer as one token, although the tokenizer would join some of them.
            reserve = self._encoder.count(skeleton) + sum(char in _CLOSERS for char in skeleton) + 4
        matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise AICallError(f"the answer's format cannot be enforced: {matcher.get_error().splitlines()[0]}")
        return matcher, reserve


class GrammarRow:
    """The state of one answer. After `free` tokens, it forces open strings, lists and objects to close."""

    def __init__(self, matcher: llguidance.LLMatcher, closers: list[int], vocabulary: int, free: int) -> None:
        self._matcher = matcher
        self._closers = closers
        self._vocabulary = vocabulary
        self._free = free

    def allowed(self) -> torch.Tensor:
        """Return which tokens can come next (bool, shape: vocabulary)."""
        packed = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        mask = np.unpackbits(packed, bitorder="little")[: self._vocabulary].astype(bool)
        if self._free <= 0:
            forced = self._matcher.compute_ff_tokens()[:1] or [token for token in self._closers if mask[token]][:1]
            if forced:
                mask = np.zeros(self._vocabulary, dtype=bool)
                mask[forced] = True
        return torch.from_numpy(mask)

    def accept(self, token: int) -> bool:
        """Append the chosen token; return whether the answer is finished."""
        self._free -= 1
        self._matcher.consume_token(token)
        return self._matcher.is_stopped()


def _skeleton(schema: Any) -> str:
    """Return roughly the shortest instance of a schema, to estimate how many tokens a forced end takes."""
    if not isinstance(schema, dict):
        return '""'
    if "enum" in schema:
        return max((json.dumps(value) for value in schema["enum"]), key=len, default='""')
    if "properties" in schema:
        members = (f"{json.dumps(name)}:{_skeleton(part)}" for name, part in schema["properties"].items())
        return "{" + ",".join(members) + "}"
    if schema.get("type") == "array":
        return "[" + ",".join([_skeleton(schema.get("items"))] * max(1, schema.get("minItems", 0))) + "]"
    return '""'
