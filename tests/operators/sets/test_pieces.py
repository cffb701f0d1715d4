"""Pieces of a text that is longer than a prompt."""

import pytest

from flightllm.operators.sets.pieces import pieces


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


@pytest.mark.parametrize(
    "text",
    [
        "One sentence. " * 400,
        "a line of words\n" * 300,
        "\n\n".join(f"Paragraph {number} is here.\nIt has two lines." for number in range(200)),
        "x" * 5_000,
        "\u8fd9\u662f\u4e00\u53e5\u8bdd\u3002" * 700,
        "\U0001f600" * 900,
    ],
)
def test_pieces_fit_and_lose_nothing(text: str) -> None:
    """Each piece fits, and together they have all characters but white space."""
    found = pieces(text, 64, _tokens)
    assert len(found) > 1
    assert all(_tokens(piece) <= 64 for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_short_texts_stay() -> None:
    """A text that fits is one piece."""
    assert pieces("short", 64, _tokens) == ["short"]


def test_an_edit_changes_few_pieces() -> None:
    """A new sentence leaves most pieces as they were."""
    sentences = [f"Sentence number {number} says {number * 7919 % 1_000}. " for number in range(400)]
    before = set(pieces("".join(sentences), 64, _tokens))
    sentences.insert(100, "Nobody said this before. ")
    after = pieces("".join(sentences), 64, _tokens)
    assert sum(piece not in before for piece in after) <= 4
