"""Yes/no questions on a passage."""

from training.passages.base import Passage
from training.phrases import Writer
from training.tasks.base import Example, hints_of_check
from training.tasks.rows import refer, row_of


def ask_filter(writer: Writer, passage: Passage) -> Example | None:
    """Return one of the passage's checks as a question; Yes and No are equally likely. None if there is no check."""
    wanted = writer.chance(0.5)
    checks = [check for check in passage.checks if check.truth is wanted]
    if not checks:
        return None
    check = writer.rng.choice(checks)
    prompt = refer(writer, check.prompt, passage.column)
    marks, pointers = hints_of_check(passage, check, prompt)
    answer = "Yes" if check.truth else "No"
    return Example("filter", "ai_filter", prompt, row_of(writer, passage), answer, marks=marks, pointers=pointers)
