"""People, towns, products and other things: sentences that state their attributes, with questions about each."""

from collections.abc import Mapping
from typing import Any

from training.passages.base import Check, Classes, Fact, Mark, Passage
from training.phrases import Writer, load_language

KINDS = ("person", "town", "company", "event", "product", "film", "book", "secret")
_COLUMNS = ("description", "text", "notes", "about", "profile", "info", "details", "entry")


def write_record(writer: Writer, kind: str, stated: int | None = None) -> Passage:
    """Return a text with `stated` attributes (by default a few) of one new thing of this kind, a sentence each."""
    language = load_language(f"records/{kind}")
    writer = writer.over(language["words"])
    name = writer.fill(writer.choose(language["name"]), {})
    attributes: Mapping[str, Any] = language["attribute"]
    order = writer.rng.sample(sorted(attributes), len(attributes))
    count = min(len(order), stated or writer.count(2, 5))
    values = {attribute: _value(writer, attributes[attribute]) for attribute in order}
    sentences: list[str] = []
    marks: list[Mark] = []
    for place, attribute in enumerate(order[:count]):
        called = name
        if place and writer.chance(0.5):
            called = writer.fill(writer.rng.choice(language["refs"]), {"name": name})
        statement = writer.choose(attributes[attribute]["statements"])
        sentences.append(writer.sentence(statement, {"name": called, "value": values[attribute]}))
        marks += [(sentences[-1], attribute), (sentences[-1], f"kind {kind}")]
    text = " ".join(sentences)
    checks, facts = [], []
    for place, attribute in enumerate(order):
        told = place < count
        checks += _checks(writer, attribute, attributes[attribute], name, values[attribute], told=told)
        question = writer.sentence(writer.choose(attributes[attribute]["questions"]), {"name": name})
        facts.append(
            Fact(
                tuple(attributes[attribute]["fields"]),
                question,
                _stated(values[attribute], text, told=told),
                attribute,
            )
        )
    noun = language["noun"]
    return Passage(
        kind=kind,
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(checks),
        classes=_kind_classes(noun, kind),
        facts=tuple(facts),
        summary=sentences[0],
        extras=(("name", name),),
        marks=tuple(marks),
    )


def _value(writer: Writer, attribute: Mapping[str, Any]) -> str:
    return writer.fill(writer.rng.choice(attribute["values"]), {})


def _stated(value: str, text: str, *, told: bool) -> str | None:
    """Return the value as written in the text, where it can begin a sentence; None if the text does not state it."""
    if not told:
        return None
    return value if value in text else value[:1].upper() + value[1:]


def _checks(
    writer: Writer, about: str, attribute: Mapping[str, Any], name: str, value: str, *, told: bool
) -> list[Check]:
    """Return checks for the value and for another value. The answer for a value that the text does not state is no."""
    other = _value(writer, attribute)
    while other in value or value in other:
        other = _value(writer, attribute)
    asked = [(value, True), (value, True), (other, False), (other, False)] if told else [(other, False)]
    return [
        Check(writer.sentence(writer.choose(attribute["checks"]), {"name": name, "value": one}), truth, (about,))
        for one, truth in asked
    ]


def _kind_classes(noun: str, kind: str) -> tuple[Classes, ...]:
    if kind == "secret":
        return ()
    others = [other for other in KINDS if other not in {kind, "secret"}]
    nouns = tuple(load_language(f"records/{other}")["noun"] for other in others)
    return (Classes(noun, nouns, about=tuple(f"kind {one}" for one in [kind, *others])),)
