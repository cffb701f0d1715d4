"""Three prompts in two orders. A synopsis comes from the cache if the prompt before has it too."""

from collections.abc import Sequence
from typing import Final

from docs.pictures.drawing import EDGE, Box, picture, text

_ORDERS: Final = {
    "as the rows come": (("A", "good"), ("B", "bad"), ("A", "fine")),
    "as FlightLLM sends them": (("A", "good"), ("A", "fine"), ("B", "bad")),
}
"""The synopsis and the review of each prompt."""
_WIDTH, _BAR, _GAP = 340, 30, 10


def draw() -> str:
    """Draw the picture."""
    parts, height = list[str](), 0
    for title, prompts in _ORDERS.items():
        parts.append(text(EDGE, height + 28, title, "title", "start"))
        parts.extend(_prompts(height + 44, prompts))
        height += 44 + len(prompts) * (_BAR + _GAP)
    return picture("Prompts in two orders", _WIDTH, height, parts)


def _prompts(top: int, prompts: Sequence[tuple[str, str]]) -> list[str]:
    parts: list[str] = []
    before = None
    for synopsis, review in prompts:
        kind, said = ("kept", "from the cache") if synopsis == before else ("asked", "computed")
        parts.extend(Box(EDGE, top, 226, _BAR).bar(kind, f"synopsis {synopsis}, {said}"))
        parts.extend(Box(EDGE + 230, top, 86, _BAR).bar("own", review))
        before, top = synopsis, top + _BAR + _GAP
    return parts
