"""The prompt of several questions about one row: each question under its code, and the fields of the row once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flightllm.llm.prompt_formats import CUE, PromptFormat, Question

_WHAT: Final = "There are {count} questions about the same record. Each begins with its code."
_HOW: Final = (
    "Answer each question by itself, as if it were the only one. Write one JSON object and nothing else, with the code"
    " of each question as a key and the answer to this question as its value, in the order of the questions."
)
_AGAIN: Final = "Answer each of the {count} questions, by its code."


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of one question: its instruction, and its parts where the call has them."""

    instruction: str
    asked: Question | None

    @property
    def whole(self) -> str:
        """Return the question as one text."""
        if self.asked is None:
            return self.instruction
        return "\n".join(part for part in (self.asked.task, self.asked.question_and_reply) if part)


@dataclass(frozen=True, slots=True)
class QuestionsPrompt:
    """Renders the prompts of several calls for one row after the other.

    Prompts of the same calls share all questions as a prefix. With `fields_first` they follow the fields, so that
    other prompts about the row share the fields.
    """

    questions: tuple[Asked, ...]
    prompt_format: PromptFormat
    fields_first: bool = False

    def render(self, codes: Sequence[str], fields: Sequence[tuple[str, str]]) -> str:
        """Return the prompt for named values, with a code for each question."""
        form, whole = self.prompt_format, self._questions(codes)
        again = _AGAIN.format(count=len(self.questions))
        if form.plain:
            body = form.fields(fields)
            return f"{body}\n{whole}\n{CUE}" if self.fields_first else f"{whole}\n\n{body}\n{again}\n{CUE}"
        return form.assembled(whole, form.fields(fields), again, fields_first=self.fields_first)

    def ends(self, codes: Sequence[str], fields: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Return where the parts of the prompt end that other prompts can share, see `PromptFormat.ends`."""
        return self.prompt_format.ends(self._questions(codes), None, fields, fields_first=self.fields_first)

    def _questions(self, codes: Sequence[str]) -> str:
        """Return all questions with their codes, and how to answer them."""
        each = (f"Question {code}\n{one.whole}" for code, one in zip(codes, self.questions, strict=True))
        return "\n\n".join([_WHAT.format(count=len(self.questions)), *each, _HOW])
