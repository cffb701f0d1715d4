"""The kinds of joins: the columns of their rows, and the rows that they keep without a partner."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from flightllm.sql.nodes import Json, kind


class JoinKind(NamedTuple):
    """Whether a join gives the columns of each side, and keeps the rows of each side that have no partner."""

    left: bool = True
    right: bool = True
    keeps_left: bool = False
    """A row of the left side without a partner stays: NULL stands for the other side's columns."""
    keeps_right: bool = False


INNER: Final = JoinKind()
LEFT: Final = JoinKind(keeps_left=True)
RIGHT: Final = JoinKind(keeps_right=True)
FULL: Final = JoinKind(keeps_left=True, keeps_right=True)
LEFT_HALF: Final = JoinKind(right=False)
"""SEMI and ANTI joins have the columns of one side."""
RIGHT_HALF: Final = JoinKind(left=False)

_KINDS: Final[Mapping[str, JoinKind]] = {
    **dict.fromkeys(("Join", "Inner", "CrossJoin", "StraightJoin"), INNER),
    **dict.fromkeys(("Left", "LeftOuter"), LEFT),
    **dict.fromkeys(("Right", "RightOuter"), RIGHT),
    "FullOuter": FULL,
    **dict.fromkeys(("Semi", "LeftSemi", "Anti", "LeftAnti"), LEFT_HALF),
    **dict.fromkeys(("RightSemi", "RightAnti"), RIGHT_HALF),
}


def join_kind(join: Json) -> JoinKind | None:
    """Return the kind of a join in a FROM; None for an operator such as APPLY or ASOF."""
    return _KINDS.get(kind(join["join_operator"]))
