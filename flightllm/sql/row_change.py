"""The parts of a statement that changes rows: UPDATE, DELETE, MERGE, INSERT … ON CONFLICT, with what it returns."""

from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["update", "delete", "insert", "nothing"]
Rows = Literal["matched", "not_matched", "not_matched_by_source"]


@dataclass(frozen=True, slots=True)
class Action:
    """What is done with rows of one kind; `values` are the columns to set and the SQL of their new values.

    The value `None` stands for DEFAULT. An `insert` without values adds a row of defaults.
    """

    kind: ActionKind
    rows: Rows = "matched"
    condition: str = ""
    values: tuple[tuple[str, str | None], ...] = ()
    positional: bool = False
    """The columns of an INSERT were left out: its values are those of the first columns, in order."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """ON CONFLICT: the columns of the key (none: any key), and what to do with the row that is there."""

    columns: tuple[str, ...]
    action: Action


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of rows. All texts are SQL as written, without comments; an empty one stands for a part left out."""

    alias: str
    """What the statement calls the table that it changes."""
    common: str = ""
    """WITH queries."""
    source: str = ""
    """The tables of FROM or USING."""
    condition: str = ""
    """Of WHERE, or of MERGE … ON."""
    actions: tuple[Action, ...] = ()
    conflict: Conflict | None = None
    returning: str = ""
    merged: bool = False
    """It is MERGE: a row that two source rows match is an error."""
    simple: bool = False
    """DataFusion's own UPDATE or DELETE would do: one table, no subquery, nothing returned."""
