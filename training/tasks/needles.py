"""Needles: a long text states a fact, mostly early, and a question at its end asks for this fact."""

from training.passages.base import Passage
from training.passages.films import write_synopsis
from training.passages.records import KINDS, write_record
from training.passages.reviews import write_review
from training.passages.tickets import write_ticket
from training.passages.topics import write_topic
from training.phrases import Writer
from training.tasks.base import Example, hints_of_check, hints_of_question

_COLUMNS = ("context", "document", "text", "report", "notes", "page")

Field = tuple[str, str]
"""A column's name and its text."""


def ask_needle(writer: Writer, words: int, *, early: bool = False) -> Example:
    """Return a question for a fact hidden in about `words` words, in the first third if `early`, else mostly there."""
    return ask_needles(writer, words, 1, early=early)[0]


def ask_needles(writer: Writer, words: int, count: int, *, early: bool = False) -> list[Example]:
    """Return questions for `count` facts hidden in one text. All prompts begin with the text.

    If the prompts do not begin with the text, there is only the question for the first fact.

    A long text costs much to read, so that one question teaches little for this cost.
    """
    needles = [write_record(writer, "secret", 1) for _ in range(count)]
    hay: list[str] = []
    length = 0
    while length < words:
        passage = _straw(writer)
        hay.append(passage)
        length += passage.count(" ") + 1
    for needle in needles:
        first_third = early or writer.chance(0.6)
        hay.insert(writer.rng.randint(0, len(hay) // 3 if first_third else len(hay)), needle.text)
    text = ("\n\n" if writer.chance(0.5) else " ").join(hay)
    field = (writer.rng.choice(_COLUMNS), text)
    if writer.chance(0.35):
        return [_ask(needle, field, "Answer the question.") for needle in needles]
    if writer.chance(0.2):
        return [_ask(needles[0], field)]
    return [
        _check(writer, needle, field) if writer.chance(0.25) else _ask(needle, field, first=True) for needle in needles
    ]


def _ask(needle: Passage, field: Field, prompt: str | None = None, *, first: bool = False) -> Example:
    """Return a question for a fact. The question is the prompt, or a field of its own if `prompt` is given."""
    [fact] = [fact for fact in needle.facts if fact.value is not None]
    marks, pointers = hints_of_question(needle, fact)
    row = (field, ("question", fact.question)) if prompt else (field,)
    return Example("needle", "ai_gen", prompt or fact.question, row, fact.value or "", (), first, marks, pointers)


def _check(writer: Writer, needle: Passage, field: Field) -> Example:
    wanted = writer.chance(0.5)
    check = writer.rng.choice([check for check in needle.checks if check.truth is wanted])
    marks, pointers = hints_of_check(needle, check, check.prompt)
    answer = "Yes" if wanted else "No"
    return Example(
        "long filter",
        "ai_filter",
        check.prompt,
        (field,),
        answer,
        (),
        fields_first=True,
        marks=marks,
        pointers=pointers,
    )


def _straw(writer: Writer) -> str:
    """Return one passage of any kind. Other secrets are among them, so that the model must read the question."""
    kind = writer.rng.choice(["topic", "record", "record", "ticket", "review", "film", "secret"])
    if kind == "record":
        return write_record(writer, writer.rng.choice([name for name in KINDS if name != "secret"])).text
    if kind == "secret":
        return write_record(writer, "secret", 1).text
    return {"topic": write_topic, "ticket": write_ticket, "review": write_review, "film": write_synopsis}[kind](
        writer
    ).text
