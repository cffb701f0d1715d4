"""The kinds of questions that can be evaluated, and the reading of their labels and answers from SQL values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from flightllm.errors import InvalidInputError

Kind = Literal["yes/no", "classes", "lists", "numbers"]
_YES_NO: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("yes", "true", "1", "y", "t"), True),
    **dict.fromkeys(("no", "false", "0", "n", "f"), False),
}
_MOST_SHOWN: Final = 5
"""The most unknown values that an error shows."""
_MOST_TEXT: Final = 40


@dataclass(frozen=True, slots=True)
class Question:
    """A question with a known kind of answer."""

    kind: Kind
    classes: tuple[str, ...] = ()
    """The possible answers, of a question with classes or lists of classes."""
    low: float = 0.0
    high: float = 1.0
    """The least and the greatest answer, of a question with numbers."""

    def value(self, given: Any) -> Any:
        """Return an answer or label as a value that can be compared: a boolean, text, set of texts, or number.

        None stays None.

        Raises:
            ValueError: the question has no such answer.
        """
        if given is None:
            return None
        match self.kind:
            case "yes/no":
                return _yes_no(given)
            case "classes":
                return self._class(given)
            case "lists":
                return frozenset(map(self._class, _listed(given)))
            case "numbers":
                return float("bool" if isinstance(given, bool) else given)

    def _class(self, given: Any) -> str:
        text = str(given).strip()
        if text in self.classes:
            return text
        folded = [one for one in self.classes if one.casefold() == text.casefold()]
        if len(folded) != 1:
            raise ValueError
        return folded[0]


def read_labels(question: Question, values: Sequence[Any]) -> list[Any]:
    """Return the labels of rows; a missing label stays None.

    Raises:
        InvalidInputError: some labels are not answers of the question; the message has their values.
    """
    found, unknown = list[Any](), dict[str, None]()
    for given in values:
        try:
            found.append(question.value(given))
        except (ValueError, TypeError):
            unknown[str(given)[:_MOST_TEXT]] = None
    if unknown:
        shown = ", ".join(map(repr, list(unknown)[:_MOST_SHOWN]))
        more = f" and {len(unknown) - _MOST_SHOWN} more" if len(unknown) > _MOST_SHOWN else ""
        raise InvalidInputError(
            f"the labels have values that are not answers of the call: {shown}{more}. {_expected(question)}"
        )
    return found


def _expected(question: Question) -> str:
    match question.kind:
        case "yes/no":
            return "Use a boolean column, yes/no, true/false or 1/0, or compare: label = 'spam'"
        case "numbers":
            return "Use a column of numbers"
        case _:
            return f"The call's labels are {', '.join(map(repr, question.classes))}"


def _yes_no(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    text = str(given).strip().lower()
    found = _YES_NO.get(text)
    if found is not None:
        return found
    if (number := float(text)) not in {0.0, 1.0}:  # 1.0 is true, also as a text: a label of pandas
        raise ValueError
    return number == 1.0


def _listed(given: Any) -> Sequence[Any]:
    """Return the elements of a list, or of a text with a list in JSON; another text is one element."""
    if isinstance(given, str) and given.lstrip().startswith("["):
        given = json.loads(given)
    return given if isinstance(given, list | tuple) else [given]
