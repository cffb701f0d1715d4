"""The part of a prompt before the question: instructions, and examples with their answers.

Both are constants, so all prompts of a call share them, and a prefix cache computes them once. In prompts and
instructions, `{name}` refers to a field, and `{{` and `}}` are literal braces.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import Answer, Entries, Literal
from flightllm.functions.labels import as_json, read_json
from flightllm.llm.engine import Choice
from flightllm.llm.prompt_formats import Question, field_line

_ANSWERS = ("answer", "output", "label", "labels")
"""The names of an example's answer; the first of them in an example counts, and the others are then fields."""
_REASON, _INPUT = "explanation", "input"
_POSITION = ""
"""The name of a value without a name, where a call has several fields."""
_REFERENCE, _NAME = re.compile(r"\{\{|\}\}|\{([\s\w$.-]++)\}"), re.compile(r"[\w$. -]+")
_COMPARED = 200
"""Characters of a name that are compared with others, because the time grows with their square."""
_MISSPELT, _ALIKE = 0.7, 0.6
"""Similarity, from 0 to 1, at which a name in braces counts as a misspelt field; and at which the error hints at it."""


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a call: the values of its fields, the text that the model must write, and the reason."""

    fields: Sequence[tuple[str, str]]
    answer: str
    reason: str | None

    @property
    def text(self) -> str:
        """Return the example as the prompt shows it: a line for each field with a value, the answer, and the reason."""
        answer = self.answer.replace("\n", "\n  ")
        lines = [*(field_line(name, value) for name, value in self.fields), f"Answer: {answer}\n"]
        if self.reason is not None:
            lines.append(field_line("Reason", self.reason))
        return "".join(lines).removesuffix("\n")


def guided(
    answer: Answer, options: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> Answer:
    """Return the same question with the call's `instructions`, and examples, before it."""
    instructions = options.get("instructions")
    parts = [resolve_template(instructions.strip(), fields)] if isinstance(instructions, str) else []
    if examples:
        parts.append("\n\n".join(["Examples:", *(one.text for one in examples)]))
    preface = "\n\n".join(part for part in parts if part)
    if not preface:
        return answer
    asked = answer.asked or Question("", answer.instruction, "")
    task = "\n\n".join(part for part in (asked.task, preface) if part)
    return replace(answer, instruction=f"{preface}\n\n{answer.instruction}", asked=replace(asked, task=task))


def examples_of(
    answer: Answer, options: Mapping[str, Literal], fields: Sequence[str], required: Collection[str] = ()
) -> list[Example]:
    """Return the `examples` of a call.

    An example must name each of the `required` fields, which have a value in each row that is asked about.

    Raises:
        AICallError: an example has the wrong form, lacks a field, or names a field that the call does not have. An
            example has an answer that the call cannot give.
    """
    given = options.get("examples")
    listed = given if isinstance(given, tuple) else ()
    return [_example(answer, one, fields, required, f"examples[{index}]") for index, one in enumerate(listed, 1)]


def read_examples(value: Literal, name: str) -> tuple[Literal, ...]:
    """Return a list of examples, passed as a list or as a text with a JSON list.

    Raises:
        AICallError: the value is neither a list nor such a text.
    """
    found = read_json(value) if isinstance(value, str) else value
    if isinstance(value, str) and found is None:
        raise AICallError(f"{name} is a text that is not JSON ({_broken(value)}): write a list of examples")
    if not isinstance(found, tuple):
        raise AICallError(f"{name} must be a list such as [{{'input': 'a text', 'answer': 'its answer'}}]")
    return found


def _broken(text: str) -> str:
    """Return in words where a text stops to be JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos + 1}"
    except RecursionError:
        return "it is nested too deeply"
    return "it is null"


def _example(answer: Answer, example: Literal, fields: Sequence[str], required: Collection[str], place: str) -> Example:
    """Return one example. A field that it gives as NULL has no value."""
    values, wanted, reason = _parts(example, fields, place)
    given = [(_field(name, fields, place), value) for name, value in values]
    named = [(name, value) for name, value in given if value is not None]
    if len({name for name, _ in named}) < len(named):
        raise AICallError(f"{place} names a field twice")
    if not named and fields:
        raise AICallError(f"{place} has only an answer; add {' and '.join(fields[:3])}")
    present = {name for name, _ in given}
    if missing := [name for name in fields if name in required and name not in present]:
        raise AICallError(
            f"{place} lacks {' and '.join(map(repr, missing))}; add {missing[0]!r}: 'a value', or NULL for no value"
        )
    why = None if reason is None else _text(reason)
    return Example([(name, _text(value)) for name, value in named], _written(answer, wanted, place), why)


def _parts(
    example: Literal, fields: Sequence[str], place: str
) -> tuple[Sequence[tuple[str, Literal]], Literal, Literal]:
    """Return an example's named values, its answer and its explanation."""
    if isinstance(example, tuple) and 2 <= len(example) <= 3:
        first = example[0]
        named = first.items if isinstance(first, Entries) else ((_POSITION if len(fields) > 1 else _INPUT, first),)
        return named, example[1], example[2] if len(example) == 3 else None
    given = dict(example.items) if isinstance(example, Entries) else {}
    free = [name for name in given if name.lower() not in {field.lower() for field in fields}]
    key = next((name for name in _ANSWERS if name in free), None)
    if key is None or given[key] is None:
        wanted = ", ".join(f"'{field}': 'a value'" for field in fields) or "'input': 'a text'"
        raise AICallError(
            f"{place} must be such as {{{wanted}, 'answer': 'its answer'}}, or ({{{wanted}}}, 'its answer')"
        )
    reason = _REASON if _REASON in free else None
    values = [one for one in given.items() if one[0] not in {key, reason}]
    return values, given[key], given[reason] if reason else None


def _field(name: str, fields: Sequence[str], place: str) -> str:
    """Return the field that a name in an example refers to, in any case of its letters.

    `input` refers to the only field. The examples of a call without fields can have an `input` too.
    """
    if name in fields:
        return name
    for field in fields:
        if field.lower() == name.lower():
            return field
    if name.lower() == _INPUT and len(fields) <= 1:
        return fields[0] if fields else _INPUT
    if name == _POSITION:
        each = ", ".join(f"{one!r}: …" for one in fields)
        raise AICallError(f"{place} has one value without a name; name each one: {{{each}, 'answer': …}}")
    hint = f"; name each one: {{{', '.join(f'{one!r}: …' for one in fields)}, 'answer': …}}" if len(fields) > 1 else ""
    raise AICallError(
        f"{place} has {name!r}, which is not a field of the call (fields: {', '.join(fields) or 'none'}){hint}"
    )


def _written(answer: Answer, wanted: Literal, place: str) -> str:
    """Return the text that the model must write for an example's answer."""
    if wanted is None:
        raise AICallError(f"{place} has NULL as its answer: write an answer, or leave the example out")
    try:
        text = _candidate(answer, as_json(wanted))
        answer.parse(text)
    except ValueError as error:
        expected = str(error).partition("; got ")[0]
        if pa.types.is_boolean(answer.output):
            expected += ", true or false"
        raise AICallError(f"{place}: {_text(wanted)!r} cannot be an answer of this call; {expected}") from error
    return text


def _candidate(answer: Answer, value: Any) -> str:
    if answer.write is not None:
        return answer.write(value)
    constraint = answer.constraint
    if not isinstance(constraint, Choice):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    value = _meant(answer, value)
    wanted = answer.parse(value) if isinstance(value, str) else value
    if isinstance(wanted, bool) is pa.types.is_boolean(answer.output):
        for option in constraint.options:
            if answer.parse(option) == wanted:
                return option
        if (nearest := _nearest(answer, wanted)) is not None:
            return nearest
    if pa.types.is_floating(answer.output):
        numbers = [answer.parse(option) for option in constraint.options]
        raise ValueError(f"expected a number from {min(numbers):g} to {max(numbers):g}")
    raise ValueError(f"expected one of {', '.join(constraint.options)}")


def _meant(answer: Answer, value: Any) -> Any:
    """Return the value that an answer of an example stands for, before it is compared with the options."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # Snowflake's examples have a list of labels, even for a single label
    if pa.types.is_string(answer.output) and isinstance(value, int | float):
        value = json.dumps(value)
    if pa.types.is_boolean(answer.output) and isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    return value


def _nearest(answer: Answer, wanted: Any) -> str | None:
    """Return the option nearest to a number between two options of a scale; None for other values."""
    if not (pa.types.is_floating(answer.output) and isinstance(answer.constraint, Choice)):
        return None
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return None
    values = {option: answer.parse(option) for option in answer.constraint.options}
    within = min(values.values()) <= wanted <= max(values.values())
    return min(values, key=lambda option: abs(values[option] - wanted)) if within else None


def _text(value: Literal) -> str:
    found = as_json(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def reference(name: str) -> str:
    """Return an instruction's reference to a field whose value follows below the instruction."""
    return f"`{name}`"


def resolve_template(template: str, fields: Sequence[str]) -> str:
    """Replace `{name}` by a reference to the field of that name, never by its value, so that all rows share the text.

    `{0}`, `{1}` … refer to fields by position, from 0. Names match exactly, or else without regard to case. Names that
    match no field take the fields that no name refers to, in order: `{movie}` is `m.title` if that is the only field.
    Braces around anything except a name, such as JSON, stay; so does `}}` in a prompt without `{{`.

    Raises:
        AICallError: a name matches no field, and it is a misspelt field or too few fields are left; the error lists the
            fields.
    """
    escapes = "{{" in template
    known = _known(template, fields)

    def replace(match: re.Match[str]) -> str:
        if (name := _name(match)) is None:
            return match[0][0] if match[1] is None and escapes else match[0]
        return reference(known[name] if name in known else known[name.lower()])

    return _REFERENCE.sub(replace, template)


def _known(template: str, fields: Sequence[str]) -> Mapping[str, str]:
    """Return the field of each name in a template, by the exact name or the name in lower case."""
    known = {str(index): name for index, name in enumerate(fields)}
    known |= {name.lower(): name for name in reversed(fields)}
    known |= {name: name for name in fields}
    names = names_of(template)
    unknown = [name for name in names if name not in known and name.lower() not in known]
    by_case: dict[str, str] = {}
    for name in unknown:
        by_case.setdefault(name.lower(), name)
    meant = {known.get(name) or known.get(name.lower()) for name in names}
    free = [field for field in fields if field not in meant]
    for place, name in enumerate(by_case.values()):
        if len(by_case) > len(free) or not _may_mean(name, free[place], fields):
            raise AICallError(_missing(name, fields))
        known[name.lower()] = free[place]
    return known


def names_of(template: str) -> list[str]:
    """Return the names that a template refers to, each once, in their order.

    `{{x}}` and braces around anything except a name, such as JSON, refer to nothing.
    """
    return list(dict.fromkeys(name for match in _REFERENCE.finditer(template) if (name := _name(match)) is not None))


def _name(match: re.Match[str]) -> str | None:
    """Return the name in braces; None for doubled braces, and for braces around anything else."""
    name = "" if match[1] is None else match[1].strip()
    return name if _NAME.fullmatch(name) else None


def _may_mean(name: str, field: str, fields: Sequence[str]) -> bool:
    """Return whether an unknown name can take a field by position: it is neither a number nor a misspelt field."""
    if name.isdecimal():
        return False
    compared = name[:_COMPARED]
    close = get_close_matches(compared, fields, n=1, cutoff=_ALIKE)
    return not close or (close[0] == field and not get_close_matches(compared, close, cutoff=_MISSPELT))


def referred_fields(template: object) -> frozenset[str]:
    """Return the names in a prompt's braces, in lower case; an empty set if the prompt is not a text."""
    found = _REFERENCE.finditer(template) if isinstance(template, str) else ()
    return frozenset(match[1].strip().lower() for match in found if match[1] is not None)


def _missing(name: str, fields: Sequence[str]) -> str:
    if not fields:
        return f"the prompt names {{{name}}} but the call has no fields; pass it: {name} => expression"
    close = get_close_matches(name[:_COMPARED], fields, n=1, cutoff=_ALIKE)
    hint = f"did you mean {{{close[0]}}}?" if close else f"pass it: {name} => expression"
    return f"the prompt names {{{name}}}, which is not a field of the call (fields: {', '.join(fields)}); {hint}"
