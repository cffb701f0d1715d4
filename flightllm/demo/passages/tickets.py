"""Customers' messages: what they want, how they say it, which order they mean."""

from flightllm.demo.passages.base import Check, Classes, Fact, Passage, Rating
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
    said = [writer.choose(intents[intent]["bodies"]), *tone]
    if not writer.brief and writer.chance(0.4):
        said.append(writer.choose(language["filler"]))
    writer.rng.shuffle(said)
    framed = 0.1 if writer.brief else 0.7
    parts = [*([greeting] if writer.chance(framed) else []), *said, *([farewell] if writer.chance(framed) else [])]
    text = " ".join(writer.sentence(part, values) for part in parts)
    checks = [
        Check(writer.choose(language["angry_checks"]), angry),
        Check(writer.choose(departments[department]["checks"]), truth=True),
        Check(writer.choose(intents[intent]["checks"]), truth=True),
        *_wrong_checks(writer, department, intent),
    ]
    labels = 0 if writer.chance(0.6) else writer.rng.randrange(3)
    others = tuple(departments[name]["labels"][labels] for name in sorted(departments) if name != department)
    facts = []
    for value, fields, questions in (
        (values["order"], _ORDER_FIELDS, _ORDER_QUESTIONS),
        (values["customer"], _NAME_FIELDS, _NAME_QUESTIONS),
    ):
        facts.append(Fact(fields, writer.rng.choice(questions), value if value in text else None))
    return Passage(
        kind="ticket",
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(checks),
        classes=(Classes(departments[department]["labels"][labels], others),),
        facts=tuple(facts),
        ratings=(Rating(writer.rng.choice(_URGENCY), 0.9 if angry else 0.1),),
        summary=f"The customer {writer.fill(intents[intent]['summary'], values)}.",
        sentiment="positive" if department == "praise" else "negative" if angry else None,
        extras=(("subject", subject),),
    )


def _wrong_checks(writer: Writer, department: str, intent: str) -> list[Check]:
    departments = load_language("tickets")["department"]
    other = writer.rng.choice([name for name in sorted(departments) if name != department])
    elsewhere = writer.rng.choice(sorted(departments[other]["intent"]))
    beside = writer.rng.choice([name for name in sorted(departments[department]["intent"]) if name != intent])
    return [
        Check(writer.choose(departments[other]["checks"]), truth=False),
        Check(writer.choose(departments[other]["intent"][elsewhere]["checks"]), truth=False),
        Check(writer.choose(departments[department]["intent"][beside]["checks"]), truth=False),
    ]
