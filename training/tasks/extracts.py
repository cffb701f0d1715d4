"""Facts as JSON, or one of them as the answer to a question."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from training.passages.base import Fact, Passage
from training.phrases import Split, Writer
from training.tasks.base import Example, Pointer, hints_of_question, marks_of_facts, pointers_to_value
from training.tasks.rows import row_of

_ASKED = (
    "Extract the facts.",
    "What does the text say?",
    "Give these details.",
    "Fill in the fields.",
)
_BRIEFLY = (
    "{question}",
    "{question} Answer with the value alone.",
    "{question} Be brief.",
    "{question} A few words are enough.",
)


def ask_extract(writer: Writer, passage: Passage, most: int = 4) -> Example | None:
    """Return a request for up to `most` fields; the answer has null for values that the text does not have."""
    if not passage.facts:
        return None
    told = [fact for fact in passage.facts if fact.value is not None]
    facts = writer.rng.sample(told, min(len(told), writer.rng.randint(1, most)))
    missing = [fact for fact in passage.facts if fact.value is None]
    if missing and (not facts or writer.chance(0.15)):
        facts.append(writer.rng.choice(missing))
    writer.rng.shuffle(facts)
    wanted = {writer.rng.choice(fact.fields): fact for fact in facts}
    row = row_of(writer, passage, plain=True)
    by_schema = writer.split is Split.TRAINING and writer.chance(0.15)
    whole = {name for name, fact in wanted.items() if by_schema and _is_whole(writer, fact)}
    answer = _json({name: fact.value for name, fact in wanted.items()}, whole)
    example = Example(
        "extract",
        "ai_extract",
        _schema(wanted, whole) if by_schema else tuple(wanted),
        row,
        answer,
        marks=(*marks_of_facts(passage), *((f'"{name}"', fact.about) for name, fact in wanted.items() if fact.about)),
        pointers=tuple(pointer for name, fact in wanted.items() for pointer in _pointers(passage, name, fact, answer)),
    )
    if not by_schema and writer.split is Split.TRAINING and writer.chance(0.15):
        return respond(example, writer.rng.choice(_ASKED))
    return example


def respond(example: Example, prompt: str) -> Example:
    """Return a request for the same fields by `ai_gen`, as its `response_format`."""
    return replace(example, function="ai_gen", literal=prompt, options=(("response_format", example.literal),))


def typed(example: Example) -> Example | None:
    """Return a request for the same fields by a schema with types, or None if no field is a whole number.

    Every field that can be a whole number has this type.
    """
    values = json.loads(example.answer)
    whole = {name for name, value in values.items() if value is not None and _is_number(value)}
    return replace(example, literal=_schema(values, whole), answer=_json(values, whole)) if whole else None


def ask_question(writer: Writer, passage: Passage) -> Example | None:
    """Return a question that the text answers, in the prompt or as a field of its own; None if there is no fact."""
    told = {fact.question: fact for fact in passage.facts if fact.value is not None}
    replies = [(question, fact.value or "") for question, fact in told.items()]
    if not replies and not passage.replies:
        return None
    question, answer = writer.rng.choice([*replies, *passage.replies])
    marks, pointers = hints_of_question(passage, told[question]) if question in told else (passage.marks, ())
    if writer.chance(0.2):
        row = [(passage.column, passage.text), ("question", question)]
        writer.rng.shuffle(row)
        return Example("question", "ai_gen", "Answer the question.", tuple(row), answer, marks=marks, pointers=pointers)
    prompt = writer.rng.choice(_BRIEFLY).format(question=question)
    row_fields = row_of(writer, passage, plain=bool(told))
    return Example("question", "ai_gen", prompt, row_fields, answer, marks=marks, pointers=pointers)


def _pointers(passage: Passage, name: str, fact: Fact, answer: str) -> tuple[Pointer, ...]:
    """Return pointers to the value that the answer has for a name."""
    start = answer.index(f'"{name}":') + len(f'"{name}":')
    return pointers_to_value(passage, fact, start + (answer[start] == '"'))


def _json(values: Mapping[str, str | None], whole: Container[str]) -> str:
    """Return values as JSON; the values named in `whole` are numbers."""
    typed_values = {name: int(value) if value and name in whole else value for name, value in values.items()}
    return json.dumps(typed_values, ensure_ascii=False, separators=(",", ":"))


def _schema(wanted: Iterable[str], whole: Container[str]) -> str:
    """Return a schema of the fields `wanted`, in which those in `whole` are whole numbers."""
    properties = {name: {"type": ["integer" if name in whole else "string", "null"]} for name in wanted}
    return json.dumps({"type": "object", "properties": properties, "required": [*properties]})


def _is_whole(writer: Writer, fact: Fact) -> bool:
    """Return whether a value has the type of a whole number.

    A value that the text does not have gets this type at random, so that the type does not reveal this.
    """
    if fact.value is None:
        return writer.chance(0.2)
    return _is_number(fact.value)


def _is_number(value: str) -> bool:
    return value.isdecimal() and not value.startswith("0")
