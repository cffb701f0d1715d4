"""Yes or no: is something so?"""

from flightllm.demo.passages.base import Passage
from flightllm.demo.phrases import Writer
from flightllm.demo.tasks.base import Example, pointers_to_evidence
from flightllm.demo.tasks.rows import refer, row_of


def ask_filter(writer: Writer, passage: Passage) -> Example | None:
    """Ask one of the passage's checks; Yes and No are equally likely."""
    wanted = writer.chance(0.5)
    checks = [check for check in passage.checks if check.truth is wanted]
    if not checks:
        return None
    check = writer.rng.choice(checks)
    prompt = refer(writer, check.prompt, passage.column)
    marks = (*passage.marks, *((words, key) for key in check.about for words in (prompt, "")))
    if check.named:
        marks = (*marks, (check.named, check.about[0]))
    return Example(
        "filter",
        "ai_filter",
        prompt,
        row_of(writer, passage),
        "Yes" if check.truth else "No",
        marks=marks,
        pointers=pointers_to_evidence(passage, check.about) if check.about else (),
    )
