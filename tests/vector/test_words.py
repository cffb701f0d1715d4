"""Full-text search: texts by their words."""

from pathlib import Path

import numpy as np
import pytest

from flightllm.errors import InvalidInputError
from flightllm.vector.words import Words
from tests.packages import needs

pytestmark = needs("tantivy", extra="vector")

TEXTS = ["The battery lasts ten hours", "A film about batteries and love", "", "Battery, battery: battery!"]


@pytest.fixture
def words(tmp_path: Path) -> Words:
    """Return an index of a few texts."""
    return Words.add(TEXTS, tmp_path)


def test_finds_words(words: Words) -> None:
    """Texts with words of the query, or other forms of these, the best first."""
    scores, rows = words.search("Which batteries do I love?", 10)
    assert rows.tolist() == [1, 3, 0]
    assert (np.diff(scores) <= 0).all()
    assert words.search("battery", 1)[1].tolist() == [3]


@pytest.mark.parametrize("query", ["", "?!", "zebra", '"unbalanced (', "text:love AND", "-", "NOT love OR [a TO b]"])
def test_any_query_is_text(words: Words, query: str) -> None:
    """Nothing in a query is syntax."""
    _, rows = words.search(query, 5)
    assert set(rows.tolist()) <= {0, 1, 3}


def test_within(words: Words) -> None:
    """Only flagged texts are found, however deep in the list they stand."""
    assert words.search("battery", 1, np.array([True, False, True, False]))[1].tolist() == [0]
    assert words.search("battery", 9, np.zeros(4, np.bool_))[1].tolist() == []


def test_read(words: Words, tmp_path: Path) -> None:
    """An index is read again as it was; what is none is an error of ours."""
    assert Words.read(tmp_path).search("love", 3)[1].tolist() == words.search("love", 3)[1].tolist() == [1]
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Words.read(tmp_path / "nothing")
