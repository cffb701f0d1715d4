"""What a call tells the model before its question: instructions, and examples with their answers.

Both are constants, so all prompts of a call share them, and a prefix cache computes them once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import Answer, Entries, Literal
from flightllm.llm.base import Choice
from flightllm.llm.formats import Asked, field_line

_ANSWERS = ("answer", "output", "label", "labels")
"""The names of an example's answer; the first that an example has counts, and others then are fields."""
_REASON, _INPUT = "explanation", "input"


def guided(answer: Answer, options: Mapping[str, Literal], fields: Sequence[str]) -> Answer:
    """Return what asks the same with the call's `instructions` and `examples`.

    Raises:
        AICallError: an example is none, names what is no field, or has an answer that the call cannot give.
    """
    instructions, given = options.get("instructions"), options.get("examples")
    parts = [instructions.strip()] if isinstance(instructions, str) else []
    if isinstance(given, tuple) and given:
        examples = [_example(answer, one, fields, f"examples[{index}]") for index, one in enumerate(given, 1)]
        parts.append("\n\n".join(["Examples:", *examples]))
    told = "\n\n".join(part for part in parts if part)
    if not told:
        return answer
    asked = answer.asked or Asked("", answer.instruction, "")
    task = "\n\n".join(part for part in (asked.task, told) if part)
    return replace(answer, instruction=f"{told}\n\n{answer.instruction}", asked=replace(asked, task=task))


def _example(answer: Answer, example: Literal, fields: Sequence[str], place: str) -> str:
    """Return one example as it is told: a line for each field, the answer, and why."""
    values, wanted, reason = _parts(example, place)
    lines = [field_line(_field(name, fields, place), _text(value)) for name, value in values if value is not None]
    if not lines and fields:
        raise AICallError(f"{place} has an answer alone; add {' and '.join(fields[:3])}")
    lines.append(f"Answer: {_written(answer, _json(wanted), place)}\n")
    if reason is not None:
        lines.append(field_line("Reason", _text(reason)))
    return "".join(lines).removesuffix("\n")


def _parts(example: Literal, place: str) -> tuple[Sequence[tuple[str, Literal]], Literal, Literal]:
    """Return an example's named values, its answer and its explanation."""
    if isinstance(example, tuple) and 2 <= len(example) <= 3:
        first = example[0]
        values = first.items if isinstance(first, Entries) else ((_INPUT, first),)
        return values, example[1], example[2] if len(example) == 3 else None
    given = dict(example.items) if isinstance(example, Entries) else {}
    key = next((name for name in _ANSWERS if name in given), None)
    if key is None or given[key] is None:
        raise AICallError(
            f"{place} must be such as {{'input': 'a text', 'answer': 'its answer'}}, or ('a text', 'answer')"
        )
    return [one for one in given.items() if one[0] not in {key, _REASON}], given[key], given.get(_REASON)


def _field(name: str, fields: Sequence[str], place: str) -> str:
    """Return the field that a name in an example means; `input` is the only one, where there is one."""
    known = {field.lower(): field for field in fields}
    if name.lower() in known:
        return known[name.lower()]
    if name.lower() == _INPUT:
        return fields[0] if len(fields) == 1 else _INPUT
    raise AICallError(f"{place} has {name!r}, which is no field of the call (fields: {', '.join(fields) or 'none'})")


def _written(answer: Answer, value: Any, place: str) -> str:
    """Return the text that the model must write for an example's answer."""
    try:
        text = _candidate(answer, value)
        answer.parse(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AICallError(f"{place}: no answer of this call is {value!r}; {error}") from error
    return text.replace("\n", "\n  ")


def _candidate(answer: Answer, value: Any) -> str:
    if answer.write is not None:
        return answer.write(value)
    constraint = answer.constraint
    if not isinstance(constraint, Choice):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    wanted = answer.parse(value) if isinstance(value, str) else value
    if isinstance(wanted, bool) is pa.types.is_boolean(answer.output):
        for option in constraint.options:
            if answer.parse(option) == wanted:
                return option
    raise ValueError(f"expected one of {', '.join(constraint.options)}")


def _json(value: Literal) -> Any:
    """Return a constant as JSON has it."""
    if isinstance(value, Entries):
        return {key: _json(one) for key, one in value.items}
    return [_json(one) for one in value] if isinstance(value, tuple) else value


def _text(value: Literal) -> str:
    found = _json(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
