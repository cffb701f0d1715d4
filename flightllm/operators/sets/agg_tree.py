"""The tree of one group of an aggregate: its nodes, the prompts about it, and the place where a prompt is cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flightllm.operators.sets.base import Failure
from flightllm.operators.sets.citations import Note
from flightllm.operators.sets.group import Group, Item


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: its note, and the rank by which the level above is cut.

    The rank is that of the last text or node below, and not that of the note: another note moves no cut.
    """

    note: Note | Failure
    content: str


@dataclass(slots=True)
class Tree:
    """A group on its way to its answer."""

    group: Group
    nodes: list[Node] = field(default_factory=list)
    leaves: int = 0
    levels: int = 1
    calls: int = 0
    answer: Any = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of one tree: its question, its text, and the row of each number in it."""

    tree: Tree
    question: str
    text: str
    rows: Mapping[int, int]
    parts: "Sequence[Item] | Sequence[Node]"
    """The texts or the notes in the prompt."""

    @property
    def content(self) -> str:
        """Return the text that decides the rank of the node that the reply makes."""
        last = self.parts[-1]
        return last.content if isinstance(last, Node) else str(last.rank)


def middle(ranks: Sequence[int], least: int) -> int:
    """Return the size of the first part of a sequence that is cut in two, each with at least `least` items; or 0.

    The cut is after the item of the highest rank in the middle quarter, so that a new item rarely moves the cut.
    """
    count = len(ranks)
    aside = count * 3 // 8
    cuts = range(max(least, aside), min(count - least, count - aside) + 1)
    return max(cuts, key=lambda cut: ranks[cut - 1], default=0)
