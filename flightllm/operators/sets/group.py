"""One group of an aggregate: its texts, the leaves into which they are cut, and the form that they have in a prompt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flightllm.functions.group_texts import read_group
from flightllm.operators.sets.cuts import rank, runs
from flightllm.operators.sets.pieces import pieces
from flightllm.operators.sets.room import SEPARATOR_TOKENS

SEPARATOR: Final = "\n---\n"
_INDENTED: Final = "\n  "
_ROWS: Final = 0
"""The level of rows, for `rank`."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text in prompts: the text of a row, or a piece of a long one."""

    text: str
    row: int
    """The number of the row's text in the group."""
    tokens: int
    rank: int


class Group:
    """The distinct texts of a group, in an order that depends on nothing else."""

    def __init__(self, text: str, most: int, count: Callable[[str], int]) -> None:
        """Read a group as one text; a prompt has room for `most` tokens, and `count` counts tokens."""
        found = read_group(text)

        def counted(part: str) -> int:
            return count(part.replace("\n", _INDENTED))  # as formats of prompts write further lines

        self.keys = [keys[0] for _, keys in found]
        """The key of the first row that has each text."""
        self.items: list[Item] = []
        for row, (own, keys) in enumerate(found):
            times = f"({len(keys):,} times) " if len(keys) > 1 else ""
            room = most - SEPARATOR_TOKENS - (counted(times) if times else 0)
            for piece in pieces(own.strip(), room, counted):
                told = f"{times}{piece}"
                tokens = min(most, counted(told) + SEPARATOR_TOKENS)
                self.items.append(Item(told, row, tokens, rank(piece, _ROWS)))

    @property
    def tokens(self) -> int:
        """Return the tokens of all texts with what is between them."""
        return sum(item.tokens for item in self.items)

    def leaves(self, most: int) -> list[Sequence[Item]]:
        """Return the texts in runs of at most `most` tokens."""
        cut = runs([item.tokens for item in self.items], [item.rank for item in self.items], most)
        return [self.items[run.start : run.stop] for run in cut]


def leaf_text(items: Sequence[Item], *, numbered: bool) -> str:
    """Return the texts of a prompt; with `numbered`, each has a number from 1 on."""
    if not numbered:
        return SEPARATOR.join(item.text for item in items)
    return SEPARATOR.join(f"[{number}] {item.text}" for number, item in enumerate(items, start=1))
