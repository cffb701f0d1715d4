"""Binding of a call: from its arguments, as read from SQL tokens, to a checked `AICall`."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from flightllm.errors import AICallError, FlightLLMError
from flightllm.functions.approximate import with_proxy
from flightllm.functions.base import (
    CALIBRATE,
    COMMON_OPTIONS,
    CONFIDENCE,
    JOINING,
    PROXY,
    QUALITY,
    AIFunction,
    Answer,
    Arguments,
    Entries,
    Kind,
    Literal,
    Option,
    Parameter,
)
from flightllm.functions.calibration import calibrated_by_examples, check_calibrated_by_rows, labelled
from flightllm.functions.call import MODEL, AICall, Labelled, binding_of, name_stub
from flightllm.functions.confidence import calibrated, with_confidence
from flightllm.functions.guidance import (
    Example,
    examples_of,
    guided,
    read_examples,
    reference,
    referred_fields,
    resolve_template,
)
from flightllm.functions.join_options import read_join
from flightllm.functions.labels import read_labels, read_meanings, read_names
from flightllm.functions.normalize import read_normalize
from flightllm.functions.over_set import OverSet
from flightllm.functions.promise import Promise
from flightllm.functions.promise_options import read_promise
from flightllm.functions.questions import PLAIN_TEXT, schema_text
from flightllm.functions.reserved import is_option, meant_option
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.learning.learned import LateFit, Learned
from flightllm.llm.engine import Parameters

_MODEL_OPTION = "model"
_NAMING = (_MODEL_OPTION, PROXY)
"""The options that take the name of a model, with or without quotes."""
_PROMISED = tuple(option.name for option in QUALITY)
"""The options of a promise only."""
_PROMISING = (*_PROMISED, CONFIDENCE.name)
"""The options that a promise can have."""
_JOINING = tuple(option.name for option in JOINING)
"""The options of a join."""
_ROW_BY_ROW = ("rows_per_request", "questions_per_request", "ordered", "fresh")
"""The options that mean nothing where a prompt is not about one row."""
_PROMISERS = "ai_filter, ai_match, ai_classify, ai_score and ai_sentiment"
"""The functions that take the options of a promise."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An SQL expression: its text, and the column's name if it is a plain column reference."""

    sql: str
    column: str | None = None
    bare: bool = False
    """True for a single name, which can also be the name of a model or a prompt."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of an argument that is a literal."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: an expression, or the columns of a star; and its name and literal value, if it has them."""

    expressions: tuple[Expression, ...]
    name: str | None = None
    constant: Constant | None = None
    star: bool = False
    parts: tuple[str | Expression, ...] = ()
    """The texts and the values that the expression concatenates, if some of these texts are literals."""
    values: tuple["Argument", ...] | None = None
    """The values of `PROMPT(constant, value, …)`; `{0}`, `{1}`, … in the constant refer to them."""

    @property
    def text(self) -> str | None:
        """Return the text of a literal or of concatenated literals; None for other arguments."""
        if self.constant is not None and self.values is None:
            return self.constant.value if isinstance(self.constant.value, str) else None
        texts = [part for part in self.parts if isinstance(part, str)]
        return "".join(texts) if texts and len(texts) == len(self.parts) else None

    @property
    def word(self) -> str | None:
        """Return the text of a literal, or the name if the argument is a single name."""
        if self.constant is not None:
            return self.constant.value if isinstance(self.constant.value, str) else None
        return next((one.column for one in self.expressions if one.bare), None)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call and the SQL of its stub's arguments, in the order of `call.fields`."""

    call: AICall
    arguments: tuple[str, ...]
    ordered: bool = False
    """True if the elements of lists keep their order."""


class NameResolver(Protocol):
    """The meanings of the names of models and prompts in calls, and of a call that leaves `on_error` out."""

    on_error: str
    """The value of this option in a call without it."""

    def model(self, name: str | None) -> str | None:
        """Return the model that a call names, or None for the server's own; `name` is None if the call names no model.

        Raises:
            AICallError: there is no model with this name.
            PermissionDeniedError: the user must not use this model.
        """

    def proxies(self, name: str | None, model: str | None) -> tuple[str, ...]:
        """Return the bindings of the proxy `name`, or of all proxies of `model` if the name is 'auto' or None.

        Raises:
            AICallError: there is no such proxy, or the model has no proxy.
            PermissionDeniedError: the user must not use the proxy.
        """

    def prompt(self, reference: str) -> str | None:
        """Return the text of the prompt `name` or `name@version`, or None if the text is not a prompt's name.

        Raises:
            AICallError: there is no prompt with this name.
            PermissionDeniedError: the user must not use this prompt.
        """

    def function(self, name: str, owner: str) -> None:
        """Check the right to a function that SQL created.

        Raises:
            PermissionDeniedError: the user must not use this function.
        """

    def learned(self, function: StoredFunction, table: str, call: AICall) -> LearnedUse:
        """Return a fit to the labels in a table; `function` has the call over parameters named as its fields.

        Raises:
            AICallError: this place has no tables.
            FlightLLMError: there is no such table, or its labels teach no filter.
        """

    def hold(self, fit: Learned | LateFit, bound: BoundCall) -> None:
        """Keep a fit by which a learned filter decides answers of a call, at least as long as the call.

        Raises:
            InvalidInputError: the fit was made with other models.
        """


class AnyNames:
    """Accepts any model name and knows no prompts; for calls that are bound outside a server."""

    on_error = "null"

    def model(self, name: str | None) -> str | None:
        """Return the name."""
        return name

    def proxies(self, name: str | None, model: str | None) -> tuple[str, ...]:
        """Return the binding of a model with this name."""
        del model
        return (binding_of(name),)

    def prompt(self, reference: str) -> str | None:
        """Return None."""
        del reference
        return None

    def function(self, name: str, owner: str) -> None:
        """Allow every function."""

    def hold(self, fit: Learned | LateFit, bound: BoundCall) -> None:
        """Keep nothing: the caller holds the fit."""

    def learned(self, function: StoredFunction, table: str, call: AICall) -> LearnedUse:
        """Refuse labels.

        Raises:
            AICallError: always.
        """
        raise AICallError(f"this place has no table {table} of labels for {function.name} of {call.function}")


def bind_call(
    function: AIFunction,
    name: str,
    arguments: Sequence[Argument],
    text: str,
    names: NameResolver,
    indexes: Callable[[str], Any] | None = None,
) -> BoundCall:
    """Check the arguments of `name(…)` against the function's declaration and build the call.

    `names` resolves the names of models and prompts; `indexes` opens a vector index by name.

    Raises:
        AICallError: wrong arity, an unknown or ill-typed option, a missing `{field}`, a bad label list or schema, an
            unknown model or prompt.
        PermissionDeniedError: the user must not use a model or prompt.
    """
    try:
        return _Binder(function, name, names, indexes).bind(arguments, text)
    except _ValueOfOptionError as error:
        raise AICallError(str(error)) from error
    except AICallError as error:
        stop = "" if str(error).endswith(("?", ".")) else "."
        raise AICallError(f"{error}{stop} Usage: {function.signature(name)}") from error


class _ValueOfOptionError(AICallError):
    """The value of an option is wrong. The error needs no usage of the function, which would hide its sentence."""


@contextmanager
def _about_values() -> Iterator[None]:
    try:
        yield
    except AICallError as error:
        raise _ValueOfOptionError(str(error)) from error


@dataclass(slots=True)
class _Field:
    name: str
    sql: str
    required: bool


@dataclass(slots=True)
class _Fields:
    """Collects a call's fields and makes their names unique."""

    items: list[_Field] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    """The taken names. Each has the number with which the next field of this name begins to look for a unique one."""
    _columns: dict[str, str] = field(default_factory=dict)
    """The name of the first field of each expression."""

    def add(self, argument: Argument, fallback: str | None = None) -> str:
        """Add an argument's expression, or its columns for a star; return the name of the (first) field."""
        first = len(self.items)
        for expression in argument.expressions:
            name = argument.name or expression.column or fallback or f"field{len(self.items) + 1}"
            self.items.append(_Field(self._unique(name), expression.sql, required=not argument.star))
            self._columns.setdefault(expression.sql, self.items[-1].name)
        return self.items[first].name

    def render_part(self, part: str | Expression) -> str:
        """Return one part of a concatenated prompt as the instruction shows it: a text itself, or a field's name.

        An expression becomes a field. A column that is already a field is not added again.
        """
        if isinstance(part, str):
            return part
        known = None if part.column is None else self._columns.get(part.sql)
        return reference(known or self.add(Argument((part,))))

    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)

    def _unique(self, name: str) -> str:
        number, unique = self._numbers.get(name, 2), name
        while unique in self._numbers:
            unique = f"{name}_{number}"
            number += 1
        if unique != name:
            self._numbers[name] = number
        self._numbers[unique] = 2
        return unique


class _Binder:
    """Binds one call; holds the arguments bound so far."""

    def __init__(
        self, function: AIFunction, name: str, names: NameResolver, indexes: Callable[[str], Any] | None
    ) -> None:
        self._function = function
        self._names = names
        self._indexes = indexes
        self._order = function.positional(name)
        self._parameters: Mapping[str, Parameter] = {parameter.name: parameter for parameter in function.parameters}
        self._options: Mapping[str, Option] = {option.name: option for option in function.all_options}
        self._given: dict[str, Argument] = {}
        self._further: list[Argument] = []

    def bind(self, arguments: Sequence[Argument], text: str) -> BoundCall:
        self._assign(arguments)
        if missing := [name for name in self._required() if name not in self._given]:
            raise AICallError(f"missing argument {missing[0]}")
        self._check_order()
        self._check_templates()
        fields = _Fields()
        for argument in self._values():
            fields.add(argument)
        values = {option.name: option.default for option in self._options.values()}
        with _about_values():
            values |= {name: self._option(name) for name in self._options if name in self._given}
        prompt = self._bind_parameters(fields, values)
        self._check_fields(prompt)
        for argument in self._further:
            fields.add(argument)
        if isinstance(prompt, Constant):
            prompt = resolve_template(_text(prompt, "prompt"), fields.names())
        asked = self._built(Arguments(prompt or "", values, self._indexes, fields.names()))
        general = (*COMMON_OPTIONS, CALIBRATE)
        options = {option.name: values.get(option.name) for option in general if self._has(option)}
        required = {item.name for item in fields.items if item.required}
        examples = examples_of(asked, options, fields.names(), required)
        whole = [one for one in examples if required.issubset(dict(one.fields))]
        by_examples, uncalibrated = _labelled(asked, options, fields.names(), whole)
        by_rows = options.get(CALIBRATE.name) == "batch"
        if by_rows:
            check_calibrated_by_rows(asked, options, fields.names())
        if by_examples is not None or by_rows:
            asked = calibrated(asked)
        join = None
        if self._has(JOINING[0]) and not self._given.keys().isdisjoint(_JOINING):
            with _about_values():
                join = read_join(values, self._given.keys(), len(fields.items))
        promise = None
        if join is None and self._has(QUALITY[0]) and any(name in self._given for name in _PROMISING):
            with _about_values():
                promise = read_promise(
                    asked, values, len(fields.items), self._model(values), self._names, self._given.keys()
                )
        if promise is None and self._has(CONFIDENCE) and values[CONFIDENCE.name] is True:
            asked = with_confidence(asked)
        answer = guided(asked, options, fields.names(), examples)
        given = tuple(f"{answer.through}({item.sql})" if answer.through else item.sql for item in fields.items)
        over = self._over(asked, values, text, options, fields)
        by_rows = by_rows or (over is not None and over.whole)
        call = replace(
            self._call(answer, fields, values, text, promise, by_rows=by_rows),
            over=over,
            join=join,
            joined=any(argument.parts or argument.values for argument in self._given.values()),
            task=guided(asked, options, fields.names(), ()).instruction,
            labelled=by_examples,
            uncalibrated=uncalibrated,
        )
        return BoundCall(name_stub(_by_itself(call)), given, values.get("ordered") is True)

    def _check_order(self) -> None:
        """Check that the prompt and a field, both passed by position, are not in the wrong order.

        Raises:
            AICallError: the prompt is a column and a field is a text literal.
        """
        prompts = [name for name in self._order if name in self._parameters]
        name = next((n for n in prompts if self._parameters[n].kind is Kind.PROMPT), None)
        prompt = None if name is None else self._given.get(name)
        if prompt is None or prompt.name is not None or prompt.constant is not None or not prompt.expressions:
            return
        column = prompt.expressions[0].column
        for field_ in self._further:
            if (
                column is not None
                and field_.name is None
                and field_.constant
                and isinstance(field_.constant.value, str)
            ):
                raise AICallError(
                    f"the prompt is the column {column} and the text {_shown(field_.constant.value)[:60]} is a field:"
                    f" write the prompt first and {column} after it; if this order is correct, give the field a name,"
                    " such as text => '…'"
                )

    def _check_templates(self) -> None:
        """Check that PROMPT(…) is used only as a prompt.

        Raises:
            AICallError: PROMPT(…) is an option, a field, or another parameter.
        """
        prompts = {name for name, parameter in self._parameters.items() if parameter.kind is Kind.PROMPT}
        others = [argument for name, argument in self._given.items() if name not in prompts]
        if any(argument.values is not None for argument in (*others, *self._further, *self._values())):
            raise AICallError("PROMPT(…) can only be the prompt of an AI function")

    def _values(self) -> tuple[Argument, ...]:
        """Return the values of PROMPT(…); they are the call's first fields, in the template's numbering."""
        return tuple(value for argument in self._given.values() for value in argument.values or ())

    def _built(self, arguments: Arguments) -> Answer:
        try:
            answer = self._function.build(arguments)
        except FlightLLMError:
            raise
        except Exception as error:  # a bug in the function's file: its author needs the type and text
            raise AICallError(f"the function's build failed with {type(error).__name__}: {error}") from error
        if not isinstance(answer, Answer):
            raise AICallError(f"the function's build must return an Answer, not {type(answer).__name__}")
        return answer

    def _has(self, option: Option) -> bool:
        """Return whether the function has this option, and not an option of its own with the same name."""
        return self._options.get(option.name) is option

    def _required(self) -> list[str]:
        """Return the parameters, and the options that this name of the function takes by position."""
        return [*self._order, *(name for name in self._parameters if name not in self._order)]

    def _assign(self, arguments: Sequence[Argument]) -> None:
        """Assign each argument to its parameter or option; unnamed arguments fill the positions not passed by name."""
        named = {argument.name for argument in arguments}
        fields = self._field_names(arguments)
        free = iter([name for name in self._order if name not in named])
        for position, argument in enumerate(arguments):
            target = argument.name if argument.name in self._parameters or argument.name in self._options else None
            if target in self._options and self._is_field(argument, fields):
                target = None
            if argument.name is None:
                here = self._order[position] if position < len(self._order) else None
                twice = here in named and (argument.constant is not None or not self._function.fields)
                target = here if twice else next(free, None)
            if target is None:
                self._assign_further(argument)
            elif target in self._given or (argument.name is None and target in named):
                raise AICallError(f"argument {target} is given twice")
            else:
                self._given[target] = argument

    def _field_names(self, arguments: Sequence[Argument]) -> frozenset[str]:
        """Return the names in the prompt's braces, in lower case, except names of column arguments."""
        referred: set[str] = set()
        columns: set[str] = set()
        for argument in arguments:
            parameter = self._parameters.get(argument.name or "")
            if argument.name is None or (parameter is not None and parameter.kind is Kind.PROMPT):
                referred |= referred_fields(self._stored(argument) or (argument.constant and argument.constant.value))
            if argument.name is None:
                columns |= {one.column.lower() for one in argument.expressions if one.column is not None}
        return frozenset(referred - columns)

    def _is_field(self, argument: Argument, fields: frozenset[str]) -> bool:
        """Return whether an argument named like an option is a field: an expression, or in the prompt's braces."""
        name = (argument.name or "").lower()
        if not self._function.fields:
            return False
        if argument.constant is not None:
            return name in fields
        if name in _NAMING and argument.word is not None:
            return name == PROXY and name in fields
        if name in _PROMISING and self._is_promising(name):
            return name in fields or _in_parentheses(argument)
        if argument.parts and argument.text is not None:
            return False  # a long text written as concatenated literals
        nested = self._options[name].type in {list, Entries}
        return not nested or any(one.column is not None for one in argument.expressions)

    def _is_promising(self, name: str) -> bool:
        """Return whether this option is part of a promise, and not an option of the function with the same name."""
        return any(self._options[name] is option for option in (*QUALITY, CONFIDENCE))

    def _assign_further(self, argument: Argument) -> None:
        name = argument.name
        if name is None and not self._function.fields:
            raise AICallError(f"too many arguments: at most {len(self._order)} by position")
        if name is not None and not self._function.fields:
            raise self._unknown(name)
        self._further.append(argument)

    def _check_fields(self, prompt: Constant | str | None) -> None:
        """Refuse literals with names of options: as fields, the model would see them and answer differently.

        A name that the prompt has in braces is a field's name. An expression, such as a column, is always a field.
        """
        referred = referred_fields(prompt.value) if isinstance(prompt, Constant) else frozenset()
        known = [*self._options, *self._parameters]
        for argument in (*self._values(), *self._further):
            name = argument.name
            if name is None or argument.constant is None or name.lower() in referred:
                continue
            if name.lower() in _PROMISED and name.lower() not in known:
                raise AICallError(
                    f"{name} belongs to a promise, which {self._function.name} cannot make: {_PROMISERS} take it,"
                    f" because their answer is one of a few. {_own_field(name)}"
                )
            if is_option(name, known):
                raise self._unknown(name)

    def _unknown(self, name: str) -> AICallError:
        """Return the error for an option that does not exist."""
        known = [*self._options, *self._parameters]
        meant = meant_option(name, known)
        hint = f"did you mean {meant}?" if meant else f"known by name: {', '.join(known)}"
        if self._function.fields:
            hint += f" {_own_field(name)}"
            hint = hint if meant else hint.replace(" To pass", ". To pass", 1)
        return AICallError(f"unknown option {name}; {hint}")

    def _bind_parameters(self, fields: _Fields, values: dict[str, Literal]) -> Constant | str | None:
        """Turn each parameter into a field or a value; return the prompt's literal, or a reference to its field."""
        prompt: Constant | str | None = None
        for name in (name for name in self._required() if name in self._parameters):
            argument = self._given[name]
            unnamed = Argument(argument.expressions, None, argument.constant, argument.star)
            kind = self._parameters[name].kind
            if argument.star and kind is not Kind.FIELD:
                raise AICallError(f"{name} cannot be a star")
            if kind is Kind.LABELS:
                if argument.constant is None and argument.expressions and not _is_object(argument):
                    raise _ValueOfOptionError(self._not_constant_labels(name, argument))
                values[name] = read_labels(argument.constant.value if argument.constant else None, name)
            elif kind is Kind.SCHEMA:
                values[name] = _schema(argument, name)
            elif kind is Kind.FIELD:
                fields.add(unnamed, name)
            elif kind is Kind.INDEX:
                values[name] = _index_name(argument, name)
            elif kind is Kind.PROMPT:
                prompt, values[name] = self._prompt(argument, name, fields)
            elif argument.constant is not None:
                values[name] = _text(argument.constant, name)
            else:
                values[name] = reference(fields.add(unnamed, name))
        return prompt

    def _not_constant_labels(self, name: str, argument: Argument) -> str:
        """Return the error for labels that come from a column or a query, with the call that can read them."""
        text = next(
            (self._given[one].expressions[0].sql for one in self._order if self._given[one].expressions), "text"
        )
        return (
            f"{name} must be a constant list, because the answer is one of them; to let the model read them from data:"
            f" write ai_gen('Answer with the one choice that fits', {text}, choices => {argument.expressions[0].sql})"
        )

    def _prompt(self, argument: Argument, name: str, fields: _Fields) -> tuple[Constant | str, str]:
        """Return the prompt, and its value as a parameter. A constant prompt can have references in braces.

        The texts of a concatenated prompt go into the instruction unchanged, and its values become fields.
        """
        if (stored := self._stored(argument)) is not None:
            return Constant(stored), stored
        if argument.constant is not None:
            return argument.constant, _text(argument.constant, name)
        if argument.parts and argument.text is not None and self._further:
            return Constant(argument.text), argument.text
        if argument.parts:
            prompt = "".join(fields.render_part(part) for part in argument.parts)
            return prompt, prompt
        referred = reference(fields.add(Argument(argument.expressions), name))
        return f"Do what {referred} says.", referred

    def _stored(self, argument: Argument) -> str | None:
        """Return the text of the stored prompt of `prompt => name`; a prompt passed by position is the text itself."""
        if argument.name is None or argument.word is None or argument.values is not None:
            return None
        return self._names.prompt(argument.word)

    def _option(self, name: str) -> Literal:
        """Return the value of an option: NULL is the choice 'null' where an option has it, else the default."""
        option, argument = self._options[name], self._given[name]
        if name in _NAMING and argument.constant is None and argument.word is not None:
            return argument.word
        if argument.constant is None and option.type is str and argument.text is not None:
            return _checked(option, argument.text)
        if argument.constant is None and option.type in {list, Entries}:
            shown = "{0: 'useless', 10: 'perfect'}" if option.type is Entries else "[('a text', 'its answer')]"
            if option.type is list and argument.expressions and argument.expressions[0].sql.lstrip().startswith("("):
                raise AICallError(f"{name} must be a list: write brackets around the examples, as in {shown}")
            raise AICallError(
                f"{name} must be a constant of numbers, true, false and texts in single quotes, such as {shown};"
                " write DATE '2024-12-31' as '2024-12-31'"
            )
        if argument.constant is None and name in _PROMISING and self._is_promising(name):
            raise AICallError(_not_constant(option, argument, fields=self._function.fields))
        if argument.constant is None:
            raise AICallError(f"{name} must be a literal, not an expression")
        value = argument.constant.value
        if value is None:
            return "null" if "null" in option.choices else option.default
        if option.type is list:
            return read_examples(value, name)
        if option.type is tuple and (schema := schema_text(value)) is not None:
            return option.default if schema == PLAIN_TEXT else schema
        return read_meanings(value, name) if option.type is Entries else _checked(option, value)

    def _call(
        self,
        answer: Answer,
        fields: _Fields,
        values: Mapping[str, Literal],
        text: str,
        promise: Promise | None,
        *,
        by_rows: bool,
    ) -> AICall:
        max_tokens, temperature, normalize = map(values.get, ("max_tokens", "temperature", "normalize"))
        reasoning = values.get("reasoning")
        top_p, seed = values.get("top_p"), values.get("seed")
        return AICall(
            stub="",
            function=self._function.name,
            text=text,
            instruction=answer.instruction,
            asked=answer.asked,
            reading=answer.reading,
            fields=fields.names(),
            required=frozenset(index for index, item in enumerate(fields.items) if item.required),
            parameters=Parameters(
                max_tokens=max_tokens if isinstance(max_tokens, int) else answer.max_tokens,
                temperature=float(temperature) if isinstance(temperature, int | float) else 0.0,
                constraint=answer.constraint,
                reasoning=reasoning if isinstance(reasoning, str) else None,
                top_p=float(top_p) if isinstance(top_p, int | float) else 1.0,
                seed=seed if isinstance(seed, int) else None,
                probability=answer.probability,
            ),
            output=answer.output,
            parse=answer.parse,
            on_error=self._on_error(values),
            on_truncated=str(values.get("on_truncated", "error")),
            room=None if isinstance(max_tokens, int) else answer.room,
            usual=answer.usual,
            rows_per_request=rows if isinstance(rows := values.get("rows_per_request"), int) else 0,
            questions_per_request=most if isinstance(most := values.get("questions_per_request"), int) else 0,
            fresh=values.get("fresh") is True,
            model=self._model(values),
            backend=self._function.backend,
            takes=pa.binary() if answer.through else pa.string(),
            normalize=read_normalize(normalize) if isinstance(normalize, str) else frozenset(),
            by_rows=by_rows,
            promise=promise,
        )

    def _over(
        self, answer: Answer, values: Mapping[str, Literal], text: str, options: Mapping[str, Literal], own: _Fields
    ) -> OverSet[AICall] | None:
        """Return the method of a call over sets, with the calls that it sends; None for other calls."""
        over = answer.over
        if over is None:
            return None
        if options.get("examples"):
            raise AICallError("examples answer for one row, and this call answers for all: write instructions => '…'")
        if unused := [name for name in _ROW_BY_ROW if values.get(name)]:
            raise AICallError(
                f"{unused[0]} is for calls that ask about each row, and this call asks about a set: leave it out"
            )
        questions = {}
        for key, question in over.questions.items():
            fields = _Fields([_Field(name, "", required=True) for name in question.fields]) if question.fields else own
            examples = () if question.fields else examples_of(question.answer, options, own.names())
            asked = guided(question.answer, options, fields.names(), examples)
            call = self._call(asked, fields, values, text, None, by_rows=False)
            asks = question.function or call.function
            questions[key] = name_stub(replace(call, function=asks, rows_per_request=1, questions_per_request=1))
        found = OverSet(over.method, questions, over.options, over.whole, over.embeds)
        return with_proxy(found, values, self._names, self._model(values))

    def _on_error(self, values: Mapping[str, Literal]) -> str:
        """Return what an unusable answer gives; a function without the option, such as a search, fails.

        Raises:
            AICallError: the value is 'keep'. Where a column has an old value, the statement has replaced the option.
        """
        if "on_error" not in values:
            return "fail"
        given = values["on_error"]
        if given == "keep":
            raise AICallError(
                "on_error => 'keep' keeps the old value of a column, so the call must be in the new value of UPDATE …"
                " SET, MERGE … UPDATE SET or DO UPDATE SET, and not in a subquery: write on_error => 'null', 'struct'"
                " or 'fail' here"
            )
        return self._names.on_error if given is None else str(given)

    def _model(self, values: Mapping[str, Literal]) -> str | None:
        if self._function.backend != MODEL:
            return None
        given = values.get(_MODEL_OPTION)
        with _about_values():
            return self._names.model(given if isinstance(given, str) else None)


def _own_field(name: str) -> str:
    """Say how a call passes a field that has the name of an option."""
    return f"To pass a field of this name, put its value in parentheses: {name} => (…)"


def _by_itself(call: AICall) -> AICall:
    """Return the call without shared requests if it proves a join: the proof holds for answers about single pairs."""
    if call.join is None or call.join.targets is None:
        return call
    return replace(call, rows_per_request=1, questions_per_request=1)


def _labelled(
    asked: Answer, options: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> tuple[Labelled | None, str]:
    """Return the examples that calibrate a call, or None and, for EXPLAIN, why there is no such example."""
    if not examples:
        return None, ""
    reason = calibrated_by_examples(asked, options, fields, examples)
    if reason == "":
        return labelled(asked, options, fields, examples), ""
    return None, f"by none of {len(examples)} examples: {reason}" if reason else ""


def _is_object(argument: Argument) -> bool:
    """Return whether an argument is written as an object, in which only constants can have a meaning."""
    return argument.expressions[0].sql.lstrip().lower().startswith(("map(", "map ", "named_struct(", "struct(", "{"))


def _in_parentheses(argument: Argument) -> bool:
    return all(one.sql.lstrip().startswith("(") for one in argument.expressions)


def _not_constant(option: Option, argument: Argument, *, fields: bool) -> str:
    """Return the error for an option of a promise whose value is a column or another expression."""
    name, column = option.name, next((one.column for one in argument.expressions), None)
    kinds = {
        str: "the name of a model",
        int: "a constant whole number",
        float: "a constant number above 0 and below 1",
        bool: "true, false, or a constant number above 0 and below 1",
    }
    found = "an expression" if column is None else f"the column {column}"
    as_field = f"; to pass a field of this name, put its value in parentheses: {name} => (…)" if fields else ""
    return f"{name} must be {kinds[option.type]}, not {found}{as_field}"


def _typed(option: Option, value: Literal) -> Literal:
    """Return the number or boolean that a text means, as a text without a type takes the option's type in PostgreSQL.

    A parameter whose type a client leaves open arrives as such a text. Other values come back unchanged.
    """
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if option.type is bool and text in {"true", "false"}:
        return text == "true"
    for number in [int, float] if option.type is float or option.or_number else [int] if option.type is int else []:
        try:
            found: float = number(text)
        except ValueError:
            continue
        return found if math.isfinite(found) else value
    return value


def _checked(option: Option, value: Literal) -> Literal:
    name, wanted, value = option.name, _TYPES[option.type], _typed(option, value)
    if option.choices:
        value = _chosen(option, value)
    if not wanted.accepts(value) and not (option.or_number and _is_number(value)):
        raise AICallError(f"{name} must be {wanted.name}, not {_shown(value)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if option.low is not None and value < option.low:
            raise AICallError(f"{name} must be at least {option.low:.10g}, not {value}")
        if option.high is not None and value > option.high:
            raise AICallError(f"{name} must be at most {option.high:.10g}, not {value}")
    if option.choices and value not in option.choices:
        raise AICallError(f"{name} must be one of {', '.join(map(repr, option.choices))}, not {_shown(value)}")
    return value


def _chosen(option: Option, value: Literal) -> Literal:
    """Return the choice of an option that a value names in any case, and `off` for false; else the value."""
    if value is False and "off" in option.choices:
        return "off"
    same = (one for one in option.choices if isinstance(value, str) and one.lower() == value.strip().lower())
    return next(same, value)


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    accepts: Callable[[Literal], bool]


def _is_number(value: Literal) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[type, _Type] = {
    str: _Type("a text literal", lambda value: isinstance(value, str)),
    int: _Type("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: _Type("a number", _is_number),
    bool: _Type("true or false", lambda value: isinstance(value, bool)),
    tuple: _Type("a JSON Schema text or a list of field names", lambda value: isinstance(value, str) or _texts(value)),
}


def _text(constant: Constant, name: str) -> str:
    if not isinstance(constant.value, str):
        raise AICallError(f"{name} must be text, not {_shown(constant.value)}")
    return constant.value


def _texts(value: Literal) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _index_name(argument: Argument, name: str) -> str:
    value = argument.constant.value if argument.constant else None
    if not isinstance(value, str):
        raise AICallError(f"{name} must be the name of a vector index, as a text literal")
    return value


def _schema(argument: Argument, name: str) -> str | tuple[str, ...]:
    value = argument.constant.value if argument.constant else None
    if (schema := schema_text(value)) is not None:
        return schema
    if isinstance(value, str):
        return value
    try:
        return read_names(value, name)
    except AICallError as error:
        raise AICallError(f"{error}, or a JSON Schema as a text literal") from error


def _shown(value: Literal) -> str:
    if isinstance(value, tuple | Entries):
        return "a list" if isinstance(value, tuple) else "entries in braces"
    return "NULL" if value is None else repr(value)
