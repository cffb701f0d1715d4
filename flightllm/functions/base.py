"""What an AI function declares. A file in `udfs/` holds one `FUNCTION`; everything else about it is common code.

```python
from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, text_answer

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
from typing import Any, Self, TypeAlias, TypeVar

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.call import MODEL, SEARCH, Backend, Room
from flightllm.model.engine import Constraint, Engine
from flightllm.model.prompt_formats import Asked

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entries:
    """A constant such as `{'urgent': 'needs an answer today', 'other': NULL}`; numbers as keys are texts here."""

    items: "tuple[tuple[str, Literal], ...]"

    @classmethod
    def of(cls, keys: "Sequence[Literal]", values: "Sequence[Literal]") -> "Entries | None":
        """Return the entries of keys and values that stand in the same order; None where one lacks its other."""
        if len(keys) != len(values):
            return None
        return cls(tuple((str(key), value) for key, value in zip(keys, values, strict=True)))


Literal: TypeAlias = "str | int | float | bool | tuple[Literal, ...] | Entries | None"
"""A constant in SQL: text, number, boolean, list, entries, or NULL."""


class Kind(Enum):
    """What a positional parameter takes."""

    PROMPT = "prompt"
    """A text literal with `{field}` references, or any expression, which then is itself a field."""
    FIELD = "field"
    """Any expression, sent to the model as a field; or `t.*`, sent as one field per column."""
    TEXT = "text"
    """A text literal, told in the instruction; or any expression, which then is a field the instruction refers to."""
    LABELS = "labels"
    """A list literal of distinct, non-empty texts; or entries, which say what each label means. See `labels.py`."""
    INDEX = "index"
    """The name of a vector index, as a text literal."""
    SCHEMA = "schema"
    """A JSON Schema as a text literal, or a list literal of field names."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A positional parameter; SQL may also pass it by name."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Option:
    """An argument by name, always a literal: `name => value`."""

    name: str
    type: type[str] | type[int] | type[float] | type[bool] | type[tuple[str, ...]] | type[list[Any]] | type[Entries]
    """`tuple` takes what `Kind.SCHEMA` takes, `list` takes a list of any constants, and `Entries` what each of some
    values means."""
    default: Literal = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


COMMON_OPTIONS = (
    Option("model", str),
    Option("max_tokens", int, low=1, high=131_072),
    Option("temperature", float, 0.0, low=0.0, high=2.0),
    Option("reasoning", str, choices=("off", "low", "medium", "high")),
    Option("top_p", float, 1.0, low=0.0, high=1.0),
    Option("seed", int, low=0, high=2_147_483_647),
    Option("instructions", str),
    Option("examples", list),
    Option("on_error", str, "null", choices=("null", "struct", "fail")),
    Option("on_truncated", str, "error", choices=("error", "keep")),
    Option("normalize", str),
    Option("ordered", bool, default=False),
)
"""Options of every AI function. `max_tokens` defaults to what the function's answer needs; the elements of lists keep
their order if `ordered`. `reasoning` is how long a model that thinks does so before it answers; where it is left out,
the model's own setting counts. An answer that reached `max_tokens` before its end is a row error. With
`on_truncated => 'keep'` the part that there is becomes the value, in this query alone. `top_p` and
`seed` change nothing at temperature 0. `instructions` and `examples` are told to the model before the question, see
`guidance.py`."""
CONFIDENCE = Option("confidence", bool, default=False)
"""Of functions that choose their answer: `confidence => true` returns `struct<answer, confidence>`."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's checked arguments, as `build` sees them."""

    prompt: str
    """The prompt with `{field}` replaced by a reference to the field; a reference to it if it is no literal."""
    values: Mapping[str, Literal]
    """Options and literal parameters by name; a `Kind.TEXT` parameter that is no literal refers to its field."""
    indexes: Callable[[str], Any] | None = None
    """Opens a vector index by its name."""

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
        """Return what labels, or the values of an option of type `Entries`, mean, where SQL says so."""
        value = self.values.get(name)
        items = value.items if isinstance(value, Entries) else ()
        return {key: meaning for key, meaning in items if isinstance(meaning, str)}

    def schema(self, name: str) -> str | tuple[str, ...] | None:
        """Return a schema parameter or option: JSON Schema text or field names; None where it was left out."""
        value = self.values.get(name)
        if isinstance(value, tuple):
            return tuple(item for item in value if isinstance(item, str))
        return value if isinstance(value, str) else None

    def index(self, name: str) -> Any:
        """Return the vector index that a `Kind.INDEX` parameter names, opened.

        Raises:
            NotFoundError: there is none of this name.
        """
        if self.indexes is None:
            raise AICallError("there are no vector indexes here")
        return self.indexes(self.text(name))

    def _typed(self, name: str, type_: type[T]) -> T:
        value = self.values.get(name)
        if not isinstance(value, type_):
            raise AICallError(f"{name} needs a value")
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call asks of the model and how its text becomes a value."""

    instruction: str
    """What the model is told before the fields; never contains values of a row."""
    output: pa.DataType
    parse: Callable[[str], Any]
    """Turn the model's text into a Python value of `output`; raises `ValueError` saying what was expected.

    What searches find is no text, theirs is not used.
    """
    constraint: Constraint = None
    max_tokens: int = 128
    """Bound on the answer's tokens unless the call says otherwise."""
    room: Room | None = None
    """Bounds each answer by its prompt's values instead where that is more, unless the call says `max_tokens`.

    It has no part in what kept answers are found by: a complete answer does not depend on its bound.
    """
    through: str = ""
    """The SQL function that makes bytes of the fields, where they are no texts."""
    probability: bool = False
    """Ask how probable the answer is; `parse` takes the answer with its probability, see `confidence.py`."""
    asked: Asked | None = None
    """The instruction in parts, see `in_parts`."""
    reading: str = ""
    """Tells apart calls that ask the same and make different values of an answer."""
    write: Callable[[Any], str] | None = None
    """Turn the answer of an example into the text that the model must write, where SQL's value is not like it."""

    def in_parts(self, question: str, *, task: str = "", reply: str | None = None) -> Self:
        """Return the answer with its instruction in parts as well, for models that are asked with chat messages.

        `question` is what the user asks, `task` tells the model its job, and `reply` says how the answer must look;
        None keeps what is said of that already. Without parts each model gets the instruction as one text.
        """
        known = self.asked.reply if self.asked is not None else ""
        return replace(self, asked=Asked(task, question, known if reply is None else reply))


@dataclass(frozen=True, slots=True, kw_only=True)
class AIFunction:
    """An SQL function answered by a language model."""

    name: str
    summary: str
    returns: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Arguments], Answer]
    """Make the instruction, output type, constraint and parser; raises `AICallError` on unusable arguments."""
    fields: bool = False
    """Whether any number of fields may follow the parameters, by position, as `name => field` or as `t.*`.

    A literal under a name in `functions/reserved.py`, or one like an option's, is no field but an error, unless the
    prompt has the name in braces; in parentheses it is one.
    """
    options: tuple[Option, ...] = ()
    backend: Backend = MODEL
    """Who answers its calls."""
    aliases: Mapping[str, tuple[str, ...] | None] | None = None
    """Further names, each with its order of positional arguments (parameters or text options); None for the same."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name and the aliases."""
        return (self.name, *(self.aliases or {}))

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Return the function's own options, then those of every AI function that it does not define itself.

        A search fails as a whole or not at all, so it has none of these; embeddings are asked of no language model.
        """
        if self.backend == SEARCH:
            return self.options
        own = {option.name for option in self.options} | {parameter.name for parameter in self.parameters}
        common = COMMON_OPTIONS if self.backend == MODEL else tuple(o for o in COMMON_OPTIONS if o.name == "on_error")
        return (*self.options, *(option for option in common if option.name not in own))

    def positional(self, name: str) -> tuple[str, ...]:
        """Return the names of the positional arguments under this name of the function."""
        order = (self.aliases or {}).get(name)
        return order or tuple(parameter.name for parameter in self.parameters)

    def signature(self, name: str | None = None) -> str:
        """Return how the function is called, e.g. `ai_filter(prompt [, field…] [, model =>, …])`."""
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
    """Given the engine, return the function over Arrow arrays of equal length that DataFusion is to register."""
    through: str | None = None
    """The AI function whose answers it takes: SQL gives it what that one takes instead."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name; a scalar function has no aliases."""
        return (self.name,)

    def signature(self) -> str:
        """Return how the function is called, e.g. `ai_count_tokens(string)`."""
        kinds = ("text" if self.through else str(argument) for argument in self.arguments)
        return f"{self.name}({', '.join(kinds)})"
