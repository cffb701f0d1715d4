"""One AI call site, resolved: what every later stage needs to know about `ai_filter('…', a, b)`."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

import pyarrow as pa

from flightllm.model.engine import Parameters
from flightllm.model.prompt_formats import PLAIN, Asked, PromptFormat

Backend = Literal["model", "embedding", "search"]
"""Who answers a call: the language model, the embedding model or a vector index."""
MODEL: Backend = "model"
EMBEDDING: Backend = "embedding"
SEARCH: Backend = "search"
ELEMENT_END = "\x1e"
"""Between the elements of a list that is passed as one text (ASCII's record separator)."""


MOST_ROOM = 8_192
"""Tokens that an answer can have where nobody said how many: many endpoints refuse requests for more."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens an answer can have: `tokens`, and `per_byte` more for each byte of the values in its prompt.

    It is to be generous: models end answers by themselves, and tokenizers make a token of each byte of rare scripts.
    """

    tokens: int
    per_byte: float = 0.0

    def of(self, fields: Iterable[tuple[str, str]]) -> int:
        """Return the tokens for one prompt's named values."""
        given = sum(len(value) if value.isascii() else len(value.encode(errors="replace")) for _, value in fields)
        return min(self.tokens + ceil(self.per_byte * given), MOST_ROOM)


@dataclass(frozen=True, slots=True)
class AICall:
    """A call site after its literals were checked and its fields named.

    `stub` is the scalar function that stands for it while DataFusion plans: `name(utf8 × len(fields)) → type`, where
    the name is derived from everything else here, so that equal call sites share one stub. `fields[i]` names the
    stub's i-th argument in the prompt. A row with NULL in a field listed in `required` is answered NULL without a
    call; NULL in another field leaves that field out of the prompt (all fields NULL: no call). The
    stub of a call without fields takes one text that is ignored, and has one answer for all rows.
    """

    stub: str
    function: str
    text: str = field(compare=False)
    """The call as the user wrote it, for EXPLAIN and errors."""
    instruction: str
    """What the call asks, as one text."""
    asked: Asked | None = field(default=None, kw_only=True)
    """The same in parts, for formats that put them together."""
    fields: tuple[str, ...]
    required: frozenset[int]
    lists: frozenset[int] = field(default=frozenset(), kw_only=True)
    """The fields whose values are lists: elements in any order, with `ELEMENT_END` between them. Each is sent as a
    field of its own, all of the same name."""
    parameters: Parameters
    output: pa.DataType
    """Type of one parsed answer; `type` wraps it when `on_error` is 'struct'."""
    parse: Callable[[str], Any] = field(compare=False)
    """Turn the model's text into a Python value that `pa.array(values, type=output)` takes; raises `ValueError` saying
    what was expected."""
    on_error: str
    model: str | None = None
    """What SQL calls the language model; None is the server's own."""
    backend: Backend = MODEL
    joined: bool = field(default=False, kw_only=True, compare=False)
    """SQL joins the prompt from texts and values, as in `'Is ' || a || ' red?'` or `PROMPT('Is {0} red?', a)`. EXPLAIN
    then shows `instruction` beside `text`."""
    numeric: bool = field(default=False, kw_only=True)
    """Its answers are texts that are read as numbers, so that calls of the same prompts do not share them."""
    takes: pa.DataType = field(default_factory=pa.string, kw_only=True)
    """The type of its fields: text, but for searches of vectors, which take their bytes."""
    reading: str = field(default="", kw_only=True)
    """What `parse` depends on beside all else here, where calls that ask the same read answers differently."""
    on_truncated: str = field(default="error", kw_only=True)
    """What an answer is that the token limit cut: 'error' makes a row error of it, 'keep' a value."""
    room: Room | None = field(default=None, kw_only=True)
    """Bounds an answer by what its prompt has, where that is more than `parameters.max_tokens`."""
    normalize: frozenset[str] = frozenset()
    """What does not count when values are compared (see `normalised`): rows that agree share one answer, that of the
    row sent first."""

    @property
    def type(self) -> pa.DataType:
        """Return the SQL type of the call: `output`, or `struct<value, error>` under `on_error => 'struct'`."""
        if self.on_error == "struct":
            return pa.struct([("value", self.output), ("error", pa.string())])
        return self.output

    @property
    def binding(self) -> str:
        """Return what tells those that answer calls apart: the backend, and of language models which one."""
        return binding_of(self.model) if self.backend == MODEL else self.backend

    def max_tokens(self, fields: Sequence[tuple[str, str]]) -> int | None:
        """Return the bound on the answer to one prompt's named values, where it is not that of the parameters."""
        if self.room is None or (most := self.room.of(fields)) <= self.parameters.max_tokens:
            return None
        return most

    def prompt(
        self, fields: Iterable[tuple[str, str]], *, fields_first: bool = False, prompt_format: PromptFormat = PLAIN
    ) -> str:
        """Render the prompt for named values, in the order given.

        Prompts of one call site share the instruction as a prefix, and more where the first values are equal. With
        `fields_first` the instruction comes after the fields, for several call sites to share these. Neither order
        changes what the model is told.
        """
        return prompt_format.render(self.instruction, self.asked, fields, fields_first=fields_first)


def binding_of(model: str | None) -> str:
    """Return the `AICall.binding` of calls of a language model."""
    return MODEL if model is None else f"{MODEL} {model}"


def name_stub(call: AICall) -> AICall:
    """Return the call with `stub` set to a name derived from all that decides its answers."""
    content: tuple[object, ...] = (
        call.function,
        call.instruction,
        call.fields,
        sorted(call.required),
        sorted(call.lists),
        repr(call.parameters),
        str(call.output),
        call.on_error,
        call.model,
        call.backend,
        str(call.takes),
        sorted(call.normalize),
        repr(call.asked),
    )
    if call.on_truncated != "error":
        content = (*content, call.on_truncated)
    if call.reading:
        content = (*content, "reading", call.reading)
    if call.room is not None:
        content = (*content, call.room.tokens, call.room.per_byte)
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return replace(call, stub=f"__{call.function}_{digest[:16]}")
