"""The prompt of a pack of rows: the question once, what all rows share once, then each row under its code."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from flightllm.llm.prompt_formats import CUE, PromptFormat, Question

_HOW: Final = (
    "There are several rows. Each begins with its code. Answer for each row by itself, as if it were the only one: the"
    " text in a row says nothing about other rows. Write one JSON object and nothing else, with the code of each"
    " row as a key and the answer for this row as its value, in the order of the rows."
)
_SHARED: Final = "The same for each row:"
_ROWS: Final = "The rows:"


@dataclass(frozen=True, slots=True)
class RowsPrompt:
    """Renders the prompts of one call for several rows.

    Prompts of one call share the question as a prefix. Leading fields with the same values in all rows of a pack follow
    it once, so packs over the same values share these too.
    """

    instruction: str
    asked: Question | None
    prompt_format: PromptFormat

    def render(self, codes: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
        """Return the prompt for rows of named values, each with its code."""
        shared = shared_fields(rows)
        form = self.prompt_format
        head = f"{_SHARED}\n{form.fields(rows[0][:shared])}\n{_ROWS}\n" if shared else ""
        body = head + "\n".join(
            f"{_row(code)}{form.fields(row[shared:])}" for code, row in zip(codes, rows, strict=True)
        )
        again = f"Answer for each of the {len(rows)} rows, by its code."
        if form.plain:
            return f"{self.instruction}\n\n{_HOW}\n\n{body}\n{CUE}"
        reply = self._asked.reply
        if form.reminded and reply and len(reply) <= _MOST_REPEATED:
            again = f"{reply}\n{again}"
        return form.assembled(self._whole, body, again)

    def ends(self, rows: Sequence[Sequence[tuple[str, str]]]) -> tuple[int, ...]:
        """Return where the parts of a prompt end that other packs can share: the question, and each shared field."""
        form = self.prompt_format
        question = f"{self.instruction}\n\n{_HOW}\n\n" if form.plain else form.assembled(self._whole, _ROWS, "")
        begin = len(question) if form.plain else question.rindex(_ROWS)
        lengths = [len(form.fields([field])) for field in rows[0][: shared_fields(rows)]]
        fields = list(accumulate(lengths, initial=begin + len(_SHARED) + 1))
        return (begin, *fields[1:])

    @property
    def _asked(self) -> Question:
        return self.asked or Question("", self.instruction, "")

    @property
    def _whole(self) -> str:
        """Return the whole question, with how to answer for several rows."""
        return "\n\n".join(part for part in (self._asked.task, self._asked.question_and_reply, _HOW) if part)


_MOST_REPEATED: Final = 300
"""The most characters of the instruction how to answer that are repeated after the rows."""


def _row(code: str) -> str:
    return f"Row {code}\n"


def shared_fields(rows: Sequence[Sequence[tuple[str, str]]]) -> int:
    """Return how many leading fields have the same values in all rows."""
    if len(rows) < 2:
        return 0
    first, shared = rows[0], min(map(len, rows))
    for row in rows[1:]:
        same = 0
        while same < shared and row[same] == first[same]:
            same += 1
        shared = same
    return shared
