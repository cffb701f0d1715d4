"""Labels and answers as SQL values."""

import pytest

from flightllm.errors import InvalidInputError
from flightllm.evaluation.truth import Question, read_labels


def test_yes_and_no_have_several_spellings() -> None:
    """Booleans, words and numbers are labels of a yes/no question; NULL stays NULL."""
    given = [True, "Yes", " true", "1", 1, 1.0, "1.0", False, "NO", "f", 0, "0.0", None]
    assert read_labels(Question("yes/no"), given) == [True] * 7 + [False] * 5 + [None]


def test_classes_match_without_case() -> None:
    """A label has the spelling of the call."""
    assert read_labels(Question("classes", ("Bug", "praise")), ["bug ", "PRAISE"]) == ["Bug", "praise"]


def test_lists_come_as_lists_or_as_json() -> None:
    """A list column, a JSON text and a single label are sets of classes."""
    question = Question("lists", ("a", "b"))
    assert read_labels(question, [["A", "b"], '["a"]', "b", []]) == [
        frozenset("ab"),
        frozenset("a"),
        frozenset("b"),
        frozenset(),
    ]


@pytest.mark.parametrize(
    ("question", "given", "named"),
    [
        (Question("yes/no"), ["spam", "ham", True], "'spam', 'ham'. Use a boolean column"),
        (Question("yes/no"), [2], "'2'"),
        (Question("classes", ("bug",)), ["bog"], "'bog'. The call's labels are 'bug'"),
        (Question("numbers"), ["high"], "'high'. Use a column of numbers"),
        (Question("lists", ("a",)), ["[oops"], "'[oops'"),
        (Question("yes/no"), list("abcdeghi"), "and 3 more"),
    ],
)
def test_unknown_labels_are_named(question: Question, given: list[object], named: str) -> None:
    """An error has the values that are not answers of the call."""
    with pytest.raises(InvalidInputError, match="not answers of the call") as error:
        read_labels(question, given)
    assert named in str(error.value)
