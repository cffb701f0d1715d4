"""The declaration of an AI function. A file in `udfs/` has one `FUNCTION`; all other code is shared.

```python
from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, text_answer

def build(call: Arguments) -> Answer:
    return text_answer(f"Write a headline of at most {call.integer('words')} words for the article below.")

FUNCTION = AIFunction(
    name="ai_headline",
    summary="Write a headline for an article.",
    returns="text",
    parameters=(Parameter("article", Kind.FIELD),),
    options=(Option("words", int, 8, low=1),),
    build=build,
)
```
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Integral
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.call import MODEL, SEARCH, Backend, Room, Usual
from flightllm.llm.engine import Constraint, Engine
from flightllm.llm.prompt_formats import Question

T = TypeVar("T")
_TYPE_NAMES: Mapping[type, str] = MappingProxyType(
    {str: "a text", bool: "a boolean", int: "a whole number", float: "a number", tuple: "a list of labels"}
)


@dataclass(frozen=True, slots=True)
class Entries:
    """A constant such as `{'urgent': 'needs an answer today', 'other': NULL}`; keys that are numbers become texts."""

    items: "tuple[tuple[str, Literal], ...]"

    @classmethod
    def of(cls, keys: "Sequence[Literal]", values: "Sequence[Literal]") -> "Entries | None":
        """Return pairs of the keys and values at equal positions; None where their numbers differ."""
        if len(keys) != len(values):
            return None
        return cls(tuple((str(key), value) for key, value in zip(keys, values, strict=True)))


Literal: TypeAlias = "str | int | float | bool | tuple[Literal, ...] | Entries | None"
"""A constant in SQL: text, number, boolean, list, entries, or NULL."""


class Kind(Enum):
    """The kind of argument that a positional parameter takes."""

    PROMPT = "prompt"
    """A text literal with `{field}` references; or another expression, which then is itself a field."""
    FIELD = "field"
    """Any expression, sent to the model as a field; or `t.*`, sent as one field per column."""
    TEXT = "text"
    """A text literal, put into the instruction; or another expression, which then is a field named there."""
    LABELS = "labels"
    """A list literal of distinct, non-empty texts; or pairs of labels and their meanings. See `labels.py`."""
    INDEX = "index"
    """The name of a vector index, as a text literal."""
    SCHEMA = "schema"
    """A JSON Schema as a text literal, or a list literal of field names."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A positional parameter; SQL can also pass it by name."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Option:
    """An argument passed by name, always as a literal: `name => value`."""

    name: str
    type: type[str] | type[int] | type[float] | type[bool] | type[tuple[str, ...]] | type[list[Any]] | type[Entries]
    """`tuple` accepts the values of `Kind.SCHEMA`, `list` a list of any constants, and `Entries` the meanings of
    values."""
    default: Literal = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    or_number: bool = False
    """Whether a boolean option also takes a number."""


MOST_ROWS = 1_000
"""The most rows that a request can have."""
MOST_QUESTIONS = 100
"""The most questions about one row that a request can have."""
COMMON_OPTIONS = (
    Option("model", str),
    Option("max_tokens", int, low=1, high=131_072),
    Option("temperature", float, 0.0, low=0.0, high=2.0),
    Option("reasoning", str, choices=("off", "low", "medium", "high")),
    Option("top_p", float, 1.0, low=0.0, high=1.0),
    Option("seed", int, low=0, high=2_147_483_647),
    Option("instructions", str),
    Option("examples", list),
    Option("on_error", str, choices=("null", "struct", "result", "fail", "keep")),
    Option("on_truncated", str, "error", choices=("error", "keep")),
    Option("normalize", str),
    Option("ordered", bool, default=False),
    Option("fresh", bool, default=False),
    Option("rows_per_request", int, low=1, high=MOST_ROWS),
    Option("questions_per_request", int, low=1, high=MOST_QUESTIONS),
)
"""The options of every AI function.

`max_tokens` defaults to the length that the function's answer needs. The elements of lists keep their order with
`ordered`. `reasoning` is how long a reasoning model thinks before it answers; the default is the model's own setting.
`on_error` defaults to `null` in queries and to `fail` in statements that store rows, see `NameResolver.on_error`.
`fresh` asks about each row by itself: no earlier answer is read, no other row shares the answer, and it is not kept.
An answer that was cut at `max_tokens` is a row error; with `on_truncated => 'keep'` the partial answer becomes the
value, in this query only. `rows_per_request` is the most rows that share a request, and `questions_per_request` the
most questions about one row; both default to the session's settings. `top_p` and `seed` have no effect at temperature
0. The prompt has `instructions` and `examples` before the question, see `guidance.py`.
"""
CONFIDENCE = Option("confidence", bool, default=False, or_number=True)
"""An option of functions that choose an answer: `confidence => true` returns `struct<answer, confidence>`.

A number is the probability of a promise, see `promise.py`.
"""
TARGETS = ("recall", "precision", "accuracy")
PROXY = "proxy"
QUALITY = (
    Option(PROXY, str),
    *(Option(name, float) for name in TARGETS),
    Option("label_budget", int, low=1),
)
"""The options of a promise, see `promise.py`: a cheaper proxy decides most rows."""

JOINING = (
    Option("strategy", str, choices=("pairs", "map", "pivot", "classify", "block", "embedding", "auto")),
    Option("symmetric", bool, default=False),
)
"""The options of a filter that joins two tables, see `join_options.py`."""


CALIBRATE = Option("calibrate", str, "examples", choices=("examples", "batch", "off"))
"""An option of functions that choose an answer: what puts the cut between the options right.

With `examples` the examples do. With `batch` a sample of the query's rows does, of which all options are expected to be
right equally often.
"""
LABELS_OPTION = Option("labels", str)
"""An option of functions that learn: a table with columns named as the fields, and a column `label` with the truth."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's checked arguments, as `build` gets them."""

    prompt: str
    """The prompt with references in place of each `{field}`; if it is not a literal, a reference to its field."""
    values: Mapping[str, Literal]
    """Options and literal parameters by name; a `Kind.TEXT` parameter that is not a literal refers to its field."""
    indexes: Callable[[str], Any] | None = None
    """Opens a vector index by name."""
    fields: tuple[str, ...] = ()
    """The names of the call's fields, in the order of the call."""

    def text(self, name: str) -> str:
        """Return a text parameter or option."""
        return self._typed(name, str)

    def flag(self, name: str) -> bool:
        """Return a boolean option."""
        return self._typed(name, bool)

    def integer(self, name: str) -> int:
        """Return an integer option."""
        return self._typed(name, int)

    def number(self, name: str) -> float:
        """Return a number option."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int) else self._typed(name, float)

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a `Kind.LABELS` parameter."""
        value = self.values.get(name)
        return tuple(label for label, _ in value.items) if isinstance(value, Entries) else self._typed(name, tuple)

    def meanings(self, name: str) -> Mapping[str, str]:
        """Return the meanings of labels, or of the values in an option of type `Entries`, where SQL gives meanings."""
        value = self.values.get(name)
        items = value.items if isinstance(value, Entries) else ()
        return {key: meaning for key, meaning in items if isinstance(meaning, str)}

    def schema(self, name: str) -> str | tuple[str, ...] | None:
        """Return a schema parameter or option: JSON Schema text or field names; None where SQL leaves it out."""
        value = self.values.get(name)
        if isinstance(value, tuple):
            return tuple(item for item in value if isinstance(item, str))
        return value if isinstance(value, str) else None

    def index(self, name: str) -> Any:
        """Return the vector index that a `Kind.INDEX` parameter names, opened for search.

        Raises:
            NotFoundError: there is no index with this name.
        """
        if self.indexes is None:
            raise AICallError("this place has no vector indexes: search in a query on a server")
        return self.indexes(self.text(name))

    def _typed(self, name: str, type_: type[T]) -> T:
        value = self.values.get(name)
        if isinstance(value, type_):
            return value
        if name not in self.values:
            raise AICallError(f"the function has no argument {name!r}; it has {', '.join(self.values) or 'none'}")
        if value is None:
            raise AICallError(f"{name} needs a value")
        raise AICallError(f"{name} is {value!r}, and the function reads it as {_TYPE_NAMES[type_]}")


@dataclass(frozen=True, slots=True)
class SetQuestion:
    """A question of a function over sets: what it asks, and the names of the texts in its prompt.

    Without names, these are the fields of the call itself.
    """

    answer: "Answer"
    fields: tuple[str, ...]
    function: str = ""
    """The function that asks the same question, whose answers it shares; the function over sets itself by default."""


@dataclass(frozen=True, slots=True)
class SetAnswer:
    """How a function answers for a set of values at once, see `OverSet`, which has the same attributes."""

    method: str
    questions: Mapping[str, SetQuestion]
    options: tuple[tuple[str, Any], ...] = ()
    whole: bool = True
    embeds: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The question that a call asks the model, and the parser of the model's text."""

    instruction: str
    """The text that the model gets before the fields; it never contains values of a row."""
    output: pa.DataType
    parse: Callable[[str], Any]
    """Turn the model's text into a Python value of `output`; raise `ValueError` saying what was expected.

    Searches do not use it, because their results are not texts.
    """
    constraint: Constraint = None
    max_tokens: int = 128
    """Limit on the answer's tokens, unless the call sets one."""
    room: Room | None = None
    """Limits each answer by the size of its prompt's values, if that is more, unless the call sets `max_tokens`.

    The key of a cached answer does not include it, because a complete answer does not depend on its limit.
    """
    usual: Usual | None = None
    """The usual length of a free text; predictions use it until enough answers are known."""
    through: str = ""
    """The SQL function that encodes the fields as bytes, where they are not texts."""
    probability: bool = False
    """Ask for the probabilities of a choice's options; `parse` then gets them with the answer, see `confidence.py`."""
    asked: Question | None = None
    """The instruction in parts, see `in_parts`."""
    reading: str = ""
    """Distinguishes calls that send the same prompt but parse the answer into different values."""
    over: SetAnswer | None = None
    """How the call answers for a set of values at once; then `instruction` and `parse` are not used."""
    write: Callable[[Any], str] | None = None
    """Turn the answer of an example into the text that the model must write, where SQL's value differs from it."""

    def __post_init__(self) -> None:
        """Check the types that the author of a function can confuse.

        Raises:
            AICallError: the instruction is not a text, `output` is not an Arrow type, or `max_tokens` is not above 0.
        """
        if not isinstance(self.instruction, str):
            raise AICallError(f"the instruction must be a text, not {self.instruction!r}")
        if not isinstance(self.output, pa.DataType):
            raise AICallError(f"the output must be an Arrow type such as pa.string(), not {self.output!r}")
        limit: object = self.max_tokens
        if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1:
            raise AICallError(f"max_tokens must be a whole number from 1 on, not {limit!r}")
        object.__setattr__(self, "max_tokens", int(limit))

    def in_parts(self, question: str, *, task: str = "", reply: str | None = None, again: str | None = None) -> Self:
        """Return the answer with its instruction also in parts, for models with a chat format.

        `question` is what the user asks, `task` describes the model's job, and `reply` describes the form of the
        answer; None keeps the current `reply`. `again` is repeated after the fields; None repeats question and reply.
        Without parts, each model gets the instruction as one text.
        """
        known = self.asked.reply if self.asked is not None else ""
        return replace(self, asked=Question(task, question, known if reply is None else reply, again))


@dataclass(frozen=True, slots=True, kw_only=True)
class AIFunction:
    """An SQL function that a language model answers."""

    name: str
    summary: str
    returns: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Arguments], Answer]
    """Make the instruction, output type, constraint and parser; raise `AICallError` on arguments that do not work."""
    fields: bool = False
    """Whether any number of fields can follow the parameters: by position, as `name => field`, or as `t.*`.

    A literal with a reserved name (`functions/reserved.py`) or a name similar to an option's is an error, unless the
    prompt has the name in braces. In parentheses, such a literal is a field.
    """
    options: tuple[Option, ...] = ()
    aggregate: bool = False
    """Whether it answers for a group of rows: each field is then one text with the values of all rows."""
    backend: Backend = MODEL
    """The model or index that answers its calls."""
    aliases: Mapping[str, tuple[str, ...] | None] | None = None
    """Further names, each with its order of positional arguments (parameters or text options); None: the same order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name and the aliases."""
        return (self.name, *(self.aliases or {}))

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Return the function's own options, then the common options that it does not define itself.

        A search fails as a whole or not at all, so it has no common options. Embeddings have only `on_error`, because
        no language model answers them.
        """
        if self.backend == SEARCH:
            return self.options
        own = {option.name for option in self.options} | {parameter.name for parameter in self.parameters}
        common = COMMON_OPTIONS if self.backend == MODEL else tuple(o for o in COMMON_OPTIONS if o.name == "on_error")
        return (*self.options, *(option for option in common if option.name not in own))

    def positional(self, name: str) -> tuple[str, ...]:
        """Return the names of the positional arguments of the function under this name."""
        order = (self.aliases or {}).get(name)
        return order or tuple(parameter.name for parameter in self.parameters)

    def usage(self) -> str:
        """Return the usage of the function without the options that all functions have."""
        own = ", ".join(f"{option.name} =>" for option in self.options if option.name not in self.positional(""))
        fields = " [, field…]" if self.fields else ""
        return f"{self.name}({', '.join(self.positional(''))}{fields}{f' [, {own}]' if own else ''})"

    def signature(self, name: str | None = None) -> str:
        """Return the usage of the function, e.g. `ai_filter(prompt [, field…] [, model =>, …])`."""
        name = name or self.name
        order = self.positional(name)
        options = ", ".join(f"{option.name} =>" for option in self.all_options if option.name not in order)
        return f"{name}({', '.join(order)}{' [, field…]' if self.fields else ''} [, {options}])"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFunction:
    """An ordinary SQL function over columns that needs the engine but no answer of its model."""

    name: str
    summary: str
    returns: str
    arguments: tuple[pa.DataType, ...]
    output: pa.DataType
    bind: Callable[[Engine], Callable[..., pa.Array]]
    """Return, for an engine, the function over Arrow arrays of equal length that DataFusion registers."""
    through: str | None = None
    """The AI function whose answers it takes as arguments; SQL passes the arguments of that AI function instead."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name; a scalar function has no aliases."""
        return (self.name,)

    def signature(self) -> str:
        """Return the usage of the function, e.g. `ai_count_tokens(string)`."""
        kinds = ("text" if self.through else str(argument) for argument in self.arguments)
        return f"{self.name}({', '.join(kinds)})"
