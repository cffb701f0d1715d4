"""Functions of FROM whose rows are the elements of lists: `unnest`, `generate_series` and `range`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from flightllm.sql.nodes import Json, Node, body, columns, kind, name_of
from flightllm.sql.tree import written

SERIES: Final = frozenset({"generate_series", "range"})
FUNCTIONS: Final = frozenset({"unnest", *SERIES})
"""The names of the functions."""
_OWN_NAME: Final = "value"
"""DataFusion's name for the column of a series: a text that has it means that column."""


class ElementRows(NamedTuple):
    """A function in FROM. `lists` are the lists whose elements are the rows, side by side."""

    name: str
    lists: Sequence[Json]
    alias: Json
    numbered: bool

    @property
    def names(self) -> list[str]:
        """Return PostgreSQL's names for the columns."""
        single = len(self.lists) == 1 and self.alias is not None
        name = name_of(self.alias["name"]) if single else self.name
        # PostgreSQL gives several lists one name; here a query has different names.
        names = [name, *(f"{name}_{place}" for place in range(2, len(self.lists) + 1))]
        return [*names, "ordinality"] if self.numbered else names


def element_rows(node: Node) -> ElementRows | None:
    """Return the function that a table of FROM calls, or None for another node."""
    fields = body(node)
    if kind(node) == "UNNEST":
        lists, numbered = fields["array_exprs"], bool(fields["with_ordinality"])
        return None if fields["with_offset"] else ElementRows("unnest", lists, fields["alias"], numbered)
    if kind(node) == "Table" and fields.get("args"):
        given, numbered = fields["args"]["args"], bool(fields["with_ordinality"])
    elif kind(node) == "Function" and "lateral" in fields:
        given, numbered = fields["args"], False
    else:
        return None
    name = ".".join(name_of(body(part)) for part in fields["name"])
    values = [body(body(one)) for one in given if kind(one) == "Unnamed" and kind(body(one)) == "Expr"]
    if name not in FUNCTIONS or len(values) != len(given):
        return None
    return ElementRows(name, values if name == "unnest" else [_series(name, values)], fields["alias"], numbered)


def names_series_column(root: Json) -> bool:
    """Return whether a statement can mean the column of a series by DataFusion's name."""
    return any(_last(node) == _OWN_NAME for node in columns(root))


def _series(name: str, values: Sequence[Json]) -> Json:
    """Return the list of a series."""
    names = [f"v{place}" for place in range(len(values))]
    return written(f"{name}({', '.join(names)})", **dict(zip(names, values, strict=True)))


def _last(column: Node) -> str:
    return name_of(body(column) if kind(column) == "Identifier" else body(column)[-1])
