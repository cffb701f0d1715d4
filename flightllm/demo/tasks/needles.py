"""A fact stated somewhere in a long text, mostly early, and asked for at its end."""

from flightllm.demo.passages.films import write_synopsis
from flightllm.demo.passages.records import KINDS, write_record
from flightllm.demo.passages.reviews import write_review
from flightllm.demo.passages.tickets import write_ticket
from flightllm.demo.passages.topics import write_topic
from flightllm.demo.phrases import Writer
from flightllm.demo.tasks.base import Example, hints_of_check, hints_of_question

_COLUMNS = ("context", "document", "text", "report", "notes", "page")


def ask_needle(writer: Writer, words: int, *, early: bool = False) -> Example:
    """Hide a fact in about `words` words; in the first third where `early`, else mostly there."""
    needle = write_record(writer, "secret", 1)
    [(fact, question, value)] = [(fact, fact.question, fact.value) for fact in needle.facts if fact.value is not None]
    hay: list[str] = []
    length = 0
    while length < words:
        passage = _straw(writer)
        hay.append(passage)
        length += passage.count(" ") + 1
    first_third = early or writer.chance(0.6)
    hay.insert(writer.rng.randint(0, len(hay) // 3 if first_third else len(hay)), needle.text)
    text = ("\n\n" if writer.chance(0.5) else " ").join(hay)
    column = writer.rng.choice(_COLUMNS)
    form = writer.rng.random()
    if 0.35 <= form < 0.5:
        wanted = writer.chance(0.5)
        check = writer.rng.choice([check for check in needle.checks if check.truth is wanted])
        marks, pointers = hints_of_check(needle, check, check.prompt)
        return Example(
            "long filter",
            "ai_filter",
            check.prompt,
            ((column, text),),
            "Yes" if wanted else "No",
            fields_first=True,
            marks=marks,
            pointers=pointers,
        )
    marks, pointers = hints_of_question(needle, fact)
    if form < 0.35:
        row = ((column, text), ("question", question))
        return Example("needle", "ai_gen", "Answer the question.", row, value, marks=marks, pointers=pointers)
    first = writer.chance(0.7)
    return Example("needle", "ai_gen", question, ((column, text),), value, (), first, marks, pointers)


def _straw(writer: Writer) -> str:
    """Write one passage of any kind; other secrets too, so that the question has to be read."""
    kind = writer.rng.choice(["topic", "record", "record", "ticket", "review", "film", "secret"])
    if kind == "record":
        return write_record(writer, writer.rng.choice([name for name in KINDS if name != "secret"])).text
    if kind == "secret":
        return write_record(writer, "secret", 1).text
    return {"topic": write_topic, "ticket": write_ticket, "review": write_review, "film": write_synopsis}[kind](
        writer
    ).text
