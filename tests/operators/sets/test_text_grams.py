"""Similar spellings of texts, by their pieces."""

import numpy as np
import pytest

from flightllm.operators.sets.text_grams import folded, gram_table


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Café  Müller, Inc.", "cafe muller inc"),
        ("ＩＢＭ\t", "ibm"),
        ("!?", "!?"),
        ("", ""),
        ("東京 都", "東京 都"),
        ("STRASSE straße", "strasse strasse"),
    ],
)
def test_folded(text: str, plain: str) -> None:
    """Case, accents, punctuation and forms of characters make no difference."""
    assert folded(text) == plain


def test_similarity_is_that_of_spellings() -> None:
    """Swapped words are equal, a typing error is near, and another text is far."""
    texts = ["anna maria smith", "smith anna maria", "anna maria smyth", "oak street bakery", "", "x" * 100_000, "!?"]
    table = gram_table(texts, lambda: False)
    left, right = np.zeros(len(texts) - 1, np.int64), np.arange(1, len(texts))
    swapped, mistyped, *others = table.similarity(left, right, lambda: False)
    assert swapped == pytest.approx(1)
    assert 0.5 < mistyped < 1
    assert others == [0, 0, 0, 0]


def test_memory_is_bounded_by_texts() -> None:
    """A long text has a limited number of pieces, and an equal text has the same ones."""
    long = " ".join(str(number) for number in range(3_000))
    table = gram_table([long, long, "7"], lambda: False)
    assert np.diff(table.starts).max() <= 128
    (found,) = table.similarity(np.array([0]), np.array([1]), lambda: False)
    assert found == pytest.approx(1)
