"""An example: a call of an AI function on the fields of a row, and the text of the right answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from flightllm.functions import AIFunction, FunctionRegistry
from flightllm.functions.base import Kind, Literal
from flightllm.functions.bind import AnyNames, Argument, Constant, Expression, bind_call
from flightllm.functions.call import AICall
from training.passages.base import Check, Fact, Mark, Passage


@dataclass(frozen=True, slots=True)
class Pointer:
    """The positions in the prompt to attend to before the answer's character `before` is written.

    At these positions the last `length` characters of `words` begin. Empty `words` mean that the prompt has no answer.
    """

    before: int
    words: str
    length: int


@dataclass(frozen=True, slots=True)
class Example:
    """A call and its right answer.

    `literal` is the call's prompt, labels, schema or language; `fields` are the row's columns in prompt order.

    `marks` and `pointers` are hints for training. A mark tells the meaning of words; a mark without words tells what
    the call asks for. A pointer tells where the answer is in the prompt.
    """

    task: str
    function: str
    literal: Literal
    fields: tuple[tuple[str, str], ...]
    answer: str
    options: tuple[tuple[str, Literal], ...] = ()
    fields_first: bool = False
    marks: tuple[Mark, ...] = ()
    pointers: tuple[Pointer, ...] = ()

    def call(self) -> AICall:
        """Return the call as the SQL planner would bind it."""
        return _bind(self.function, self.literal, tuple(name for name, _ in self.fields), self.options)

    def prompt(self) -> str:
        """Return the prompt for the model."""
        return self.call().prompt(self.fields, fields_first=self.fields_first)

    def sql(self) -> str:
        """Return the call as an SQL expression over a table `t` that has the fields as columns."""
        inputs = [f'"{name}"' for name, _ in self.fields]
        literal = [] if self.literal is None else [_sql(self.literal)]
        parts = [*literal, *inputs] if _takes_prompt(self.function) else [_input(inputs), *literal]
        parts += [f"{name} => {_sql(value)}" for name, value in self.options]
        return f"{self.function}({', '.join(parts)})"


def pointers_to_value(passage: Passage, fact: Fact, before: int) -> tuple[Pointer, ...]:
    """Return pointers to a fact's value, in the sentences that state it, or everywhere if these are unknown."""
    if fact.value is None:
        return (Pointer(before, "", 0),)
    return tuple(Pointer(before, words, len(fact.value)) for words in _told(passage, fact) or [fact.value])


def marks_of_facts(passage: Passage) -> tuple[Mark, ...]:
    """Return the passage's marks, and marks at the ends of its facts' values, where an answer must end too."""
    ends = ((words, f"end of {fact.about}") for fact in passage.facts if fact.about for words in _told(passage, fact))
    return (*passage.marks, *ends)


def _told(passage: Passage, fact: Fact) -> list[str]:
    """Return the sentences that state a fact, each up to the end of the value."""
    value = fact.value
    if value is None:
        return []
    told = [words for words, about in passage.marks if about == fact.about and value in words]
    return [words[: words.find(value) + len(value)] for words in told]


def hints_of_question(passage: Passage, fact: Fact) -> tuple[tuple[Mark, ...], tuple[Pointer, ...]]:
    """Return the marks and pointers of a call that asks a fact's question."""
    marks = (*marks_of_facts(passage), *((words, fact.about) for words in (fact.question, "") if fact.about))
    return marks, pointers_to_value(passage, fact, 0)


def hints_of_check(passage: Passage, check: Check, prompt: str) -> tuple[tuple[Mark, ...], tuple[Pointer, ...]]:
    """Return the marks and pointers of a call that asks, with the text `prompt`, whether a check is true."""
    marks = (*marks_of_facts(passage), *((words, key) for key in check.about for words in (prompt, "")))
    if check.named:
        marks = (*marks, (check.named, check.about[0]))
    return marks, _pointers_to_evidence(passage, check.about) if check.about else ()


def _pointers_to_evidence(passage: Passage, about: Sequence[str]) -> tuple[Pointer, ...]:
    """Return pointers to the value in question, or else to the ends of words that have all the meanings `about`.

    If no words have these meanings, the pointer says that the prompt has no answer.
    """
    for fact in passage.facts:
        if fact.value is not None and fact.about and set(about) == {fact.about}:
            return pointers_to_value(passage, fact, 0)
    meanings: dict[str, set[str]] = {}
    for words, meaning in passage.marks:
        meanings.setdefault(words, set()).add(meaning)
    found = [words for words, meant in meanings.items() if meant.issuperset(about)]
    return tuple(Pointer(0, words, 1) for words in found) or (Pointer(0, "", 0),)


def _input(inputs: list[str]) -> str:
    return inputs[0] if len(inputs) == 1 else "t.*"


@cache
def _functions() -> FunctionRegistry:
    return FunctionRegistry.load()


def _function(name: str) -> AIFunction:
    function = _functions().get(name)
    if function is None:
        raise LookupError(f"there is no AI function {name!r}")
    return function


def _takes_prompt(name: str) -> bool:
    return _function(name).parameters[0].kind is Kind.PROMPT


@cache
def _bind(name: str, literal: Any, columns: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> AICall:
    fields = tuple(Expression(f'"{column}"', column) for column in columns)
    told = [] if literal is None else [Argument((), constant=Constant(literal))]
    if _takes_prompt(name):
        arguments = [*told, *(Argument((field,)) for field in fields)]
    else:
        arguments = [Argument(fields, star=len(fields) > 1), *told]
    arguments += [Argument((), option, Constant(value)) for option, value in options]
    return bind_call(_function(name), name, arguments, "", AnyNames()).call


def _sql(value: Literal) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_sql, value))}]"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
