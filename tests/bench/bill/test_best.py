"""The least bill: the search finds orders and marks that cost less."""

import pytest

from bench.bill.best import least
from bench.bill.pieces import FIELDS, INSTRUCTION, Pieces, take_apart
from bench.bill.prices import Prices
from bench.bill.providers import PROVIDERS

AUTOMATIC, BREAKPOINTS = PROVIDERS[:2]
AT = Prices(1.0, 0.1, 1.25, 0.0)
LONG = "The film is about a family that moves to the sea, and about the neighbours whom it meets there. " * 60


def bodies(rows: list[tuple[str, str]]) -> dict[str, list[dict[str, object]]]:
    """Return requests in both layouts, whose long field is the second one."""
    sent: dict[str, list[dict[str, object]]] = {INSTRUCTION: [], FIELDS: []}
    for short, long in rows:
        lines = f"review: {short}\nfilm: {long}"
        for layout, system, tail in (
            (INSTRUCTION, "Read.\n\nIs it fair?", "Is it fair?"),
            (FIELDS, "Read.", "Is it fair?"),
        ):
            user = f"{lines}\n\n{tail}"
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            sent[layout].append({"messages": messages})
    return sent


def pieces(count: int) -> list[Pieces]:
    """Return requests about one film."""
    return take_apart(bodies([(f"Review {number}.", LONG) for number in range(count)]), AUTOMATIC, ("review", "film"))


def test_pieces_are_what_was_sent() -> None:
    """A request is cut into its fields, and put together as it was."""
    [one] = pieces(1)
    assert [name for name, _ in one.fields] == ["review", "film"]
    sent = bodies([("Review 0.", LONG)])
    for layout in (INSTRUCTION, FIELDS):
        blocks = one.blocks(layout, ["review", "film"], frozenset())
        assert [block.text for block in blocks] == [m["content"] for m in sent[layout][0]["messages"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("provider", [AUTOMATIC, BREAKPOINTS], ids=lambda one: one.title)
def test_the_long_field_goes_first(provider: object) -> None:
    """Four requests about one long field cost little more than one; without a common field, they cost four."""
    one, four = (least(pieces(count), 0, provider, AT) for count in (1, 4))  # type: ignore[arg-type]
    assert four < 1.7 * one
    different = take_apart(
        bodies([(f"Review {number}.", f"{number} {LONG}") for number in range(4)]), AUTOMATIC, ("review", "film")
    )
    assert least(different, 0, provider, AT) == pytest.approx(4 * one, rel=0.02)  # type: ignore[arg-type]
