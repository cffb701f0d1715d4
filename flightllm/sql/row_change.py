"""The parts of a statement that changes rows: UPDATE, DELETE, MERGE, INSERT … ON CONFLICT, and their RETURNING."""

from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["update", "delete", "insert", "nothing"]
Rows = Literal["matched", "not_matched", "not_matched_by_source"]


@dataclass(frozen=True, slots=True)
class Action:
    """One action for rows of one kind; `values` are the columns to set and the SQL of their new values.

    The value `None` means DEFAULT. An `insert` without values adds a row of defaults.
    """

    kind: ActionKind
    rows: Rows = "matched"
    condition: str = ""
    values: tuple[tuple[str, str | None], ...] = ()
    positional: bool = False
    """True for an INSERT without a list of columns: its values go to the first columns, in order."""
    of_source: bool = False
    """True for INSERT ROW of a MERGE: the values are the columns of the source, in order."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """ON CONFLICT: the columns of the key (empty: any key), and the action for the row that exists."""

    columns: tuple[str, ...]
    action: Action


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of rows. All texts are SQL as the user wrote it, without comments; a missing part is an empty text."""

    alias: str
    """The name or alias that the statement uses for the table that it changes."""
    common: str = ""
    """The WITH queries."""
    source: str = ""
    """The tables of FROM or USING."""
    condition: str = ""
    """The condition of WHERE, or of MERGE … ON."""
    actions: tuple[Action, ...] = ()
    conflict: Conflict | None = None
    returning: str = ""
    merged: bool = False
    """True for MERGE, where a row that matches two source rows is an error."""
    simple: bool = False
    """True if DataFusion's own UPDATE or DELETE is enough: one table, no subquery, no RETURNING."""
