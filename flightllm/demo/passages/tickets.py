"""Customers' messages: what they want, how they say it, which order they mean."""

from flightllm.demo.passages.base import Check, Classes, Fact, Mark, Passage, Rating
from flightllm.demo.phrases import Writer, load_language

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
    """Write a message of one intent, calm or angry."""
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
    subject = writer.sentence(writer.choose(intents[intent]["subjects"]), values)
    greeting, farewell = writer.choose(language["greetings"]), writer.choose(language["farewells"])
    tone = (
        [writer.choose(language["angry" if angry else "calm"])]
        if angry or (not writer.brief and writer.chance(0.6))
        else []
    )
    body = writer.sentence(writer.choose(intents[intent]["bodies"]), values)
    tone = [writer.sentence(one, values) for one in tone]
    marks: list[Mark] = [(words, key) for words in (body, subject) for key in (_wish(intent), part_key(department))]
    marks += [(one, "angry" if angry else "calm") for one in tone]
    said = [body, *tone]
    if not writer.brief and writer.chance(0.4):
        said.append(writer.sentence(writer.choose(language["filler"]), values))
    writer.rng.shuffle(said)
    framed = 0.1 if writer.brief else 0.7
    said = [writer.sentence(greeting, values)] * writer.chance(framed) + said
    said += [writer.sentence(farewell, values)] * writer.chance(framed)
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
    facts = []
    for name, fields, questions in (
        ("order", _ORDER_FIELDS, _ORDER_QUESTIONS),
        ("customer", _NAME_FIELDS, _NAME_QUESTIONS),
    ):
        value = values[name] if values[name] in text else None
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
        extras=(("subject", subject),),
        marks=tuple(marks),
    )


def part_key(department: str) -> str:
    """Return what is for a department."""
    return f"department {department}"


def _wish(intent: str) -> str:
    return f"intent {intent}"


def _wrong_checks(writer: Writer, department: str, intent: str) -> list[Check]:
    departments = load_language("tickets")["department"]
    other = writer.rng.choice([name for name in sorted(departments) if name != department])
    elsewhere = writer.rng.choice(sorted(departments[other]["intent"]))
    beside = writer.rng.choice([name for name in sorted(departments[department]["intent"]) if name != intent])
    return [
        Check(writer.choose(departments[other]["checks"]), truth=False, about=(part_key(other),)),
        Check(writer.choose(departments[other]["intent"][elsewhere]["checks"]), truth=False, about=(_wish(elsewhere),)),
        Check(writer.choose(departments[department]["intent"][beside]["checks"]), truth=False, about=(_wish(beside),)),
    ]
