"""Customers' messages: the intent, the tone and the order."""

import re

from training.passages.base import Check, Classes, Fact, Mark, Passage, Rating
from training.phrases import Writer, load_language

_COLUMNS = ("body", "message", "ticket", "text", "email", "description")
_ORDERS = ("F-#####", "#######", "A##-####", "ORD-#####", "N####")
_ORDER_FIELDS = ("order_number", "order", "order_id")
_ORDER_QUESTIONS = (
    "Which order is it about?",
    "What is the order number?",
    "Give the order number.",
    "Find the number of the order.",
)
_NAME_FIELDS = ("customer", "customer_name", "first_name", "sender")
_NAME_QUESTIONS = ("Who wrote it?", "What is the customer's name?", "Who sent the message?")
_URGENCY = ("How urgent is this?", "How angry is the customer?", "How upset is the writer?", "How soon must we answer?")


def write_ticket(writer: Writer) -> Passage:
    """Return a message of one intent, calm or angry."""
    language = load_language("tickets")
    departments = language["department"]
    department = writer.rng.choice(sorted(departments))
    intents = departments[department]["intent"]
    intent = writer.rng.choice(sorted(intents))
    writer = writer.over(language["words"])
    angry = department != "praise" and writer.chance(0.5)
    values = {
        "order": writer.fill(writer.rng.choice(_ORDERS), {}),
        "customer": writer.pick("first"),
        "product": writer.pick("product"),
    }
    subject_pattern = writer.choose(intents[intent]["subjects"])
    subject = writer.sentence(subject_pattern, values)
    greeting, farewell = writer.choose(language["greetings"]), writer.choose(language["farewells"])
    tone = (
        [writer.choose(language["angry" if angry else "calm"])]
        if angry or (not writer.brief and writer.chance(0.6))
        else []
    )
    body_pattern = writer.choose(intents[intent]["bodies"])
    body = writer.sentence(body_pattern, values)
    tone = [writer.sentence(one, values) for one in tone]
    marks: list[Mark] = [(words, key) for words in (body, subject) for key in (_wish(intent), part_key(department))]
    marks += [(one, "angry" if angry else "calm") for one in tone]
    said = [body, *tone]
    if not writer.brief and writer.chance(0.4):
        said.append(writer.sentence(writer.choose(language["filler"]), values))
    writer.rng.shuffle(said)
    framed = 0.1 if writer.brief else 0.7
    said = [writer.sentence(greeting, values)] * writer.chance(framed) + said
    closing = writer.sentence(farewell, values)
    said += [closing] * writer.chance(framed)
    text = " ".join(said)
    checks = [
        Check(writer.choose(language["angry_checks"]), angry, ("angry",)),
        Check(writer.choose(departments[department]["checks"]), truth=True, about=(part_key(department),)),
        Check(writer.choose(intents[intent]["checks"]), truth=True, about=(_wish(intent),)),
        *_wrong_checks(writer, department, intent),
    ]
    labels = 0 if writer.chance(0.6) else writer.rng.randrange(3)
    elsewhere = [name for name in sorted(departments) if name != department]
    others = tuple(departments[name]["labels"][labels] for name in elsewhere)
    about = tuple(map(part_key, [department, *elsewhere]))
    written = [(body_pattern, body), (subject_pattern, subject), (farewell, closing)]
    written = [(pattern, words) for pattern, words in written if words in (subject, *said)]
    # A subject with the order would answer a question that the text does not, so the row has no subject.
    only_in_subject = "{$order}" in subject_pattern and "{$order}" not in body_pattern
    facts = []
    for name, fields, questions in (
        ("order", _ORDER_FIELDS, _ORDER_QUESTIONS),
        ("customer", _NAME_FIELDS, _NAME_QUESTIONS),
    ):
        told = [words for pattern, words in written if f"{{${name}}}" in pattern and has_word(words, values[name])]
        marks += [(words, name) for words in told]
        value = values[name] if any(words in said for words in told) else None
        facts.append(Fact(fields, writer.rng.choice(questions), value, name))
    return Passage(
        kind="ticket",
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(checks),
        classes=(Classes(departments[department]["labels"][labels], others, about=about),),
        facts=tuple(facts),
        ratings=(Rating(writer.rng.choice(_URGENCY), 0.9 if angry else 0.1),),
        summary=f"The customer {writer.fill(intents[intent]['summary'], values)}.",
        sentiment="positive" if department == "praise" else "negative" if angry else None,
        extras=() if only_in_subject else (("subject", subject),),
        marks=tuple(marks),
    )


def part_key(department: str) -> str:
    """Return the key of messages for a department."""
    return f"department {department}"


def has_word(words: str, value: str) -> bool:
    """Return whether a value occurs in a text as whole words."""
    return re.search(rf"\b{re.escape(value)}\b", words) is not None


def _wish(intent: str) -> str:
    return f"intent {intent}"


def _wrong_checks(writer: Writer, department: str, intent: str) -> list[Check]:
    """Return false checks: of another department, of an intent of it, and of another intent of this department."""
    departments = load_language("tickets")["department"]
    own = departments[department]["intent"]
    near = {intent, *own[intent].get("near", ())}
    near_departments = {department, *own[intent].get("near_departments", ())}
    other = writer.rng.choice([name for name in sorted(departments) if name not in near_departments])
    strange = {name: found for name, found in departments[other]["intent"].items() if name not in near}
    elsewhere = writer.rng.choice(sorted(strange))
    beside = writer.rng.choice([name for name in sorted(own) if name not in near])
    return [
        Check(writer.choose(departments[other]["checks"]), truth=False, about=(part_key(other),)),
        Check(writer.choose(strange[elsewhere]["checks"]), truth=False, about=(_wish(elsewhere),)),
        Check(writer.choose(own[beside]["checks"]), truth=False, about=(_wish(beside),)),
    ]
