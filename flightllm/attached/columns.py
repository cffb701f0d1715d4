"""Columns and tables of a source, as FlightLLM sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
from sqlglot import exp

from flightllm.errors import UnsupportedError

Compared = Literal["", "equality", "order"]
"""The comparisons that the source makes as this server does: none, of equality only, or also of order."""


def as_it_is(column: exp.Expr) -> exp.Expr:
    """Return a column as the source has it."""
    return column


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source; `read` makes the expression that a SELECT has for it."""

    name: str
    source_type: str
    type: pa.DataType
    read: Callable[[exp.Expr], exp.Expr] = as_it_is
    same: Callable[[exp.Expr], exp.Expr] = as_it_is
    """Makes the expression for tests of equality; it can find equal more values than this server does."""
    key: Callable[[exp.Expr], exp.Expr] = as_it_is
    """Makes the expression for all other comparisons."""
    compared: Compared = ""
    problem: str = ""
    """Why the column cannot be read, and what to write instead; empty for a readable column."""


ALIAS: Final = "t"
"""The alias of the table in each SELECT: SQLite takes a quoted name without one for a text if no column has it."""


def named(column: Column) -> exp.Expr:
    """Return the name of a column in a SELECT."""
    return exp.column(exp.to_identifier(column.name, quoted=True), table=ALIAS)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table or view of a source, or a SELECT over its tables.

    `rows` estimates the number of rows; None if the source does not tell. The columns of a `query` are its columns in
    order, with their names.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    rows: int | None = None
    query: exp.Select | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        """Return the columns' names and types."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def chosen(self, names: Sequence[str]) -> list[Column]:
        """Return columns by their names.

        Raises:
            UnsupportedError: one of them cannot be read.
        """
        by_name = {column.name: column for column in self.columns}
        found = [by_name[name] for name in names]
        for column in found:
            if column.problem:
                raise UnsupportedError(
                    f"the column {column.name!r} of {self.schema}.{self.name} has the type {column.source_type}, which"
                    f" has no equal here: {column.problem}; other columns can be read"
                )
        return found
