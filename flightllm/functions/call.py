"""One resolved AI call: the facts about `ai_filter('…', a, b)` that all later stages need."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from flightllm.functions.join_wish import JoinWish
from flightllm.functions.over_set import OverSet
from flightllm.functions.promise import Promise
from flightllm.llm.engine import Parameters
from flightllm.llm.prompt_formats import PLAIN, PromptFormat, Question

if TYPE_CHECKING:
    from flightllm.functions.comparison import Comparison

Backend = Literal["model", "embedding", "search"]
"""The part that answers a call: the language model, the embedding model or a vector index."""
MODEL: Backend = "model"
EMBEDDING: Backend = "embedding"
SEARCH: Backend = "search"
ERROR_FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"struct": ("value", "error"), "result": ("result", "errorMessage")}
)
"""The values of `on_error` under which a call returns a struct, and the names of its value and its error.

Databricks names them as `result` does.
"""
ELEMENT_END = "\x1e"
"""Separates the elements of a list that is passed as one text (ASCII's record separator)."""


MOST_ROOM = 8_192
"""The most tokens of an answer where neither call nor function sets a limit; many endpoints reject larger limits."""


@dataclass(frozen=True, slots=True)
class Room:
    """The limit on an answer's tokens: `tokens`, plus `per_byte` for each byte of the values in the prompt.

    Set a generous limit. A high limit costs little, because models end answers by themselves. A low limit can cut
    answers in rare scripts, because tokenizers need one token for each byte of such scripts.
    """

    tokens: int
    per_byte: float = 0.0

    def of(self, fields: Iterable[tuple[str, str]]) -> int:
        """Return the limit for the pairs of name and value in one prompt."""
        return min(self.tokens + ceil(self.per_byte * _bytes(fields)), MOST_ROOM)


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual tokens of an answer: `tokens`, plus `per_byte` for each byte of the values in the prompt, up to `most`.

    A prediction uses this figure until enough answers are known. English has about four bytes a token.
    """

    tokens: int
    per_byte: float = 0.0
    most: int = MOST_ROOM

    def of(self, fields: Iterable[tuple[str, str]]) -> int:
        """Return the usual tokens for the pairs of name and value in one prompt."""
        return min(self.tokens + round(self.per_byte * _bytes(fields)), self.most)


def _bytes(fields: Iterable[tuple[str, str]]) -> int:
    return sum(len(value) if value.isascii() else len(value.encode(errors="replace")) for _, value in fields)


@dataclass(frozen=True, slots=True)
class AICall:
    """A call whose literals are checked and whose fields have names.

    `stub` is the scalar function that replaces the call while DataFusion plans: `name(utf8 × len(fields)) → type`. Its
    name is derived from all attributes that decide the answers, so that equal calls share one stub. `fields[i]` is the
    name of the stub's i-th argument in the prompt.

    A row with NULL in a `required` field gets NULL without a call. A NULL in another field leaves that field out of the
    prompt; if all fields are NULL, there is no call. The stub of a call without fields takes one text and
    ignores it. Such a call has one answer for all rows.
    """

    stub: str
    function: str
    text: str = field(compare=False)
    """The call as the user wrote it, for EXPLAIN and errors."""
    instruction: str
    """The question of the call, as one text."""
    task: str = field(default="", kw_only=True, compare=False, repr=False)
    """The question without the call's examples: people's labels of an answer name the question by it."""
    asked: Question | None = field(default=None, kw_only=True)
    """The same question in parts, for prompt formats that arrange the parts."""
    fields: tuple[str, ...]
    required: frozenset[int]
    lists: frozenset[int] = field(default=frozenset(), kw_only=True)
    """The fields whose values are lists, with `ELEMENT_END` between the elements. Each element is sent as a separate
    field; all of them have the same name. Their order means nothing."""
    parameters: Parameters
    output: pa.DataType
    """The type of one parsed answer; `type` wraps it if `on_error` is 'struct'."""
    parse: Callable[[str], Any] = field(compare=False)
    """Turn the model's text into a Python value that `pa.array(values, type=output)` accepts; raise `ValueError` saying
    what was expected."""
    on_error: str
    model: str | None = None
    """The language model's name in SQL; None for the server's own model."""
    backend: Backend = MODEL
    joined: bool = field(default=False, kw_only=True, compare=False)
    """True where SQL builds the prompt from texts and values, as in `'Is ' || a || ' red?'` or `PROMPT('Is {0} red?',
    a)`. EXPLAIN then shows `instruction` beside `text`."""
    numeric: bool = field(default=False, kw_only=True)
    """True where the answers are read as numbers; such calls share no answers with other calls of the same prompt."""
    takes: pa.DataType = field(default_factory=pa.string, kw_only=True)
    """The type of the stub's arguments: text, but bytes for vector searches (the bytes of the vectors)."""
    reading: str = field(default="", kw_only=True)
    """Settings of `parse` that the prompt does not show. Calls that read one answer differently have different stubs by
    them, and share the answer."""
    on_truncated: str = field(default="error", kw_only=True)
    """The handling of an answer that was cut at the token limit: 'error' gives a row error, 'keep' gives the value."""
    room: Room | None = field(default=None, kw_only=True)
    """The limit by the size of the prompt's values. It applies if it is larger than `parameters.max_tokens`."""
    usual: Usual | None = field(default=None, kw_only=True, compare=False)
    """The usual length of a free text, for predictions; None if nothing is known about it."""
    rows_per_request: int = field(default=0, kw_only=True)
    """How many rows can share a request: 1 asks about each row by itself, and 0 leaves it to the session."""
    questions_per_request: int = field(default=0, kw_only=True)
    """How many questions about one row can share a request with this one; 1 means none, and 0 is as above."""
    fresh: bool = field(default=False, kw_only=True)
    """Every row has an answer of its own, which is not kept."""
    labelled: "Labelled | None" = field(default=None, kw_only=True, compare=False, repr=False)
    """The examples whose answers put the cut between the options right, see `calibration.py`."""
    by_rows: bool = field(default=False, kw_only=True)
    """A sample of the query's rows puts the cut between the options right, see `calibration.py`."""
    promise: Promise | None = field(default=None, kw_only=True)
    """The targets that let a proxy decide rows in place of the call's model; None asks the model about every row."""
    join: JoinWish | None = field(default=None, kw_only=True)
    """How the call finds the matching pairs of a join; None leaves it to the plan."""
    learned_by: str = field(default="", kw_only=True, compare=False, repr=False)
    """The name of the learned filter that decides by the answer, or an empty text."""
    before: "tuple[AICall, Comparison] | None" = field(default=None, kw_only=True, compare=False, repr=False)
    """The call and the comparison of its answer with constants that this boolean call stands for."""
    uncalibrated: str = field(default="", kw_only=True, compare=False, repr=False)
    """Why no example of the call can do this, for EXPLAIN ANALYZE; empty if some can, or if nobody asks for it."""
    over: "OverSet[AICall] | None" = field(default=None, kw_only=True, repr=False)
    """How the call answers for a set of values at once; None where it answers for each row by itself."""
    first_rows: int | None = field(default=None, kw_only=True, compare=False, repr=False)
    """How many of the first rows in the order of the answers a LIMIT needs; negative: of the last. None means all."""
    normalize: frozenset[str] = frozenset()
    """The differences that a comparison of values ignores (see `normalize.py`). Rows whose normalised values are equal
    share one answer. The model sees the row that was sent first."""

    @property
    def type(self) -> pa.DataType:
        """Return the SQL type of the call: `output`, or a struct of the value and the error, see `ERROR_FIELDS`."""
        if (names := ERROR_FIELDS.get(self.on_error)) is not None:
            return pa.struct([(names[0], self.output), (names[1], pa.string())])
        return self.output

    @property
    def binding(self) -> str:
        """Return a key of the model that answers: the backend, and for language models also the model's name."""
        return binding_of(self.model) if self.backend == MODEL else self.backend

    @property
    def cascades(self) -> bool:
        """Return whether a proxy can decide rows in place of the call's model."""
        return self.promise is not None and not self.promise.exact

    @property
    def finds_first(self) -> bool:
        """Return whether a proxy can tell which rows are likely to reach a LIMIT: a language model that scores yes."""
        promise = self.promise
        if promise is None or not self.cascades or not pa.types.is_boolean(self.output):
            return False
        return any(proxy != EMBEDDING for proxy in promise.proxies)

    def asking_all(self, reason: str) -> "AICall":
        """Return the same call without help by a proxy; `reason` says why, for EXPLAIN. It keeps its stub."""
        return replace(self, promise=replace(self.promise, exact=reason)) if self.promise and self.cascades else self

    def worded(self, wording: "Wording") -> "AICall":
        """Return the same call in other words. It keeps its stub, which stands for it in SQL."""
        return replace(self, instruction=wording.instruction, asked=wording.asked)

    def max_tokens(self, fields: Sequence[tuple[str, str]]) -> int | None:
        """Return one prompt's token limit from `room`, or None unless it is larger than `parameters.max_tokens`."""
        if self.room is None or (most := self.room.of(fields)) <= self.parameters.max_tokens:
            return None
        return most

    def prompt(
        self, fields: Iterable[tuple[str, str]], *, fields_first: bool = False, prompt_format: PromptFormat = PLAIN
    ) -> str:
        """Render the prompt for named values, in the order given.

        Prompts of one call share the instruction as a prefix. If the first values are equal, they share these too.
        With `fields_first` the instruction follows the fields, so that several calls can share the fields as a prefix.
        Either order can change a model's answer, so a query never chooses one by itself.
        """
        return prompt_format.render(self.instruction, self.asked, fields, fields_first=fields_first)


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a call's prompts, see the attributes of `AICall`."""

    instruction: str
    asked: Question | None


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """An example of a call, and the truth about it."""

    wording: Wording
    """The words of the call with the other examples in its prompt."""
    values: tuple[str | None, ...]
    """The value of each field of the call."""
    wanted: int
    """The place of the right option."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """The examples that calibrate a call."""

    examples: tuple[LabelledExample, ...]
    without: Wording
    """The words of the call without examples in its prompts."""
    scale: tuple[float, ...]
    """The numbers of the options if these are a scale; otherwise empty."""


def questions_of(call: AICall) -> tuple[AICall, ...]:
    """Return the calls that a call over sets sends in its place; empty for other calls."""
    return () if call.over is None else tuple(call.over.questions.values())


def binding_of(model: str | None) -> str:
    """Return the value of `AICall.binding` for a language model's name; None means the server's own model."""
    return MODEL if model is None else f"{MODEL} {model}"


def model_of(binding: str) -> str | None:
    """Return the name of the language model with a binding that `binding_of` made."""
    return binding.removeprefix(f"{MODEL} ") if binding != MODEL else None


def _of_methods(call: AICall) -> tuple[str, ...]:
    """Return the texts of the methods that answer a call in place of one prompt for each row."""
    promise = () if call.promise is None else (repr(replace(call.promise, exact="")),)
    over = () if call.over is None else call.over.identity
    join = () if call.join is None else (repr(call.join),)
    return (*promise, *over, *join)


def name_stub(call: AICall) -> AICall:
    """Return the call with `stub` set to a name derived from everything that decides the call's answers."""
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
    if call.rows_per_request:
        content = (*content, "rows per request", call.rows_per_request)
    if call.questions_per_request:
        content = (*content, "questions per request", call.questions_per_request)
    if call.fresh:
        content = (*content, "fresh")
    if call.by_rows:
        content = (*content, "by rows")
    content = (*content, *_of_methods(call))
    if call.room is not None:
        content = (*content, call.room.tokens, call.room.per_byte)
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return replace(call, stub=f"__{call.function}_{digest[:16]}")
