"""Cut the parts of a plan that read the tables of one source, and put a scan of one SELECT in the place of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa
from google.protobuf.message import Message
from sqlglot import exp
from substrait.algebra_pb2 import JoinRel, ReadRel

from flightllm.attached.columns import Column, Compared, SourceTable, as_it_is
from flightllm.attached.pushed.query import Query
from flightllm.attached.pushed.typed import NotSayableError, Typed
from flightllm.attached.pushed.writer import query_of
from flightllm.attached.scan import AttachedTable
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    Aggregate,
    Fetch,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SetOp,
    Sort,
    children,
    has_window,
    own_messages,
    walk,
    with_children,
)
from flightllm.plan.substrait import messages

_DIALECTS: Final = frozenset({"postgres", "duckdb"})
_SAYABLE: Final = Scan | Filter | Project | Join | Aggregate | Sort | Fetch | SetOp
_ORDERED: Final = frozenset({"int", "float", "decimal", "bool", "date", "timestamp"})
_PAIRS: Final = frozenset(
    {JoinRel.JOIN_TYPE_INNER, JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_RIGHT, JoinRel.JOIN_TYPE_OUTER}
)


class Place(Protocol):
    """Where the scans of the parts are put."""

    def table(self, rel: ReadRel) -> AttachedTable | None:
        """Return the table of an attached database that a scan reads; None for each other table."""

    def types(self, node: Node) -> list[pa.DataType]:
        """Return the types of the columns of a part."""

    def put(self, part: AttachedTable) -> Scan:
        """Add a table, and return its scan."""


def send_parts(root: Node, functions: Functions, place: Place) -> Node:
    """Return the plan with a scan for each part that runs at one source; the same object if nothing goes out.

    A part with no more than the columns and rows of one table stays: its scan sends a SELECT anyway. A sort stays too,
    unless it is the last step of the query or a limit needs it: its rows come back in the order of the source.
    """
    return _Cutter(functions, place).visit(root, whole=True)


@dataclass(frozen=True, slots=True)
class _Cutter:
    functions: Functions
    place: Place

    def visit(self, node: Node, *, whole: bool = False) -> Node:
        """Replace the largest parts at or below a node."""
        if (whole or self._is_worth(node)) and (found := self._sent(node, whole=whole)) is not None:
            return found
        if isinstance(node, Fetch) and isinstance(node.input, Project) and not has_window(node.input):
            below = node.input  # the limit goes out with the sort below the projection
            return self.visit(replace(below, input=replace(node, input=below.input)))
        return with_children(node, tuple(self.visit(one) for one in children(node)))

    def _is_worth(self, node: Node) -> bool:
        """Return whether a node ends a part: no rows or columns come back that the nodes above it could have made."""
        match node:
            case Sort() | Scan():
                return False
            case Project():
                plain = all(ex.field_index(one) is not None for one in node.expressions)
                return plain and self._is_worth(node.input)
            case Join():
                return node.kind not in _PAIRS or self._has_equality(node)
            case Filter() if isinstance(node.input, Join):
                return self._is_worth(node.input)
        return True

    def _has_equality(self, node: Join) -> bool:
        split = node.left.width
        for operand in [] if node.condition is None else self.functions.operands(node.condition, "and"):
            if self.functions.name(operand) == "equal":
                sides = [{i < split for i in ex.fields(one)} for one in ex.arguments(operand)]
                if {True} in sides and {False} in sides:
                    return True
        return False

    def _sent(self, node: Node, *, whole: bool) -> Node | None:
        """Return the scan of a part; None if it has several sources, gains nothing, or a dialect cannot say it."""
        below = list(walk(node))
        gains = any(isinstance(one, Filter | Join | Aggregate | Fetch | SetOp) for one in below)
        source = self._source(below)
        if not gains or source is None or not all(isinstance(one, _SAYABLE) for one in below):
            return None
        try:
            query = query_of(node, self.functions, source.source.dialect, self._table)
        except NotSayableError:
            return None
        if query.order and not whole and not (isinstance(node, Fetch) and isinstance(node.input, Sort)):
            return None
        scan = self.place.put(_as_table(source, query, self.place.types(node), self._rows(below, query)))
        if query.order and not whole and isinstance(node, Fetch) and isinstance(node.input, Sort):
            return Sort(scan, node.input.rel)  # the nodes above can need the order
        return scan

    def _rows(self, nodes: list[Node], query: Query) -> int | None:
        """Estimate the rows of a part: those of its largest table, or its limit."""
        known = [None if (table := self.place.table(rel)) is None else table.rows for rel in _reads(nodes)]
        largest = None if None in known else max((one for one in known if one is not None), default=None)
        return largest if query.most is None or (largest is not None and largest < query.most) else query.most

    def _source(self, nodes: list[Node]) -> AttachedTable | None:
        """Return a table of the only source that nodes read; None for several sources, and for own tables."""
        found: AttachedTable | None = None
        for rel in _reads(nodes):
            table = self.place.table(rel)
            if table is None or table.source.dialect not in _DIALECTS:
                return None
            if found is not None and table.source is not found.source:
                return None
            found = table
        return found

    def _table(self, rel: ReadRel) -> SourceTable:
        table = self.place.table(rel)
        if table is None:
            raise NotSayableError("a table of another source")
        return table.table


def _reads(nodes: list[Node]) -> Iterator[ReadRel]:
    """Yield what nodes read, in subqueries of their expressions too."""
    for node in nodes:
        if isinstance(node, Scan):
            yield node.rel
        for message in own_messages(node):
            yield from _reads_in(message)


def _reads_in(message: Message) -> Iterator[ReadRel]:
    return messages(message, ReadRel)


def _as_table(source: AttachedTable, query: Query, types: list[pa.DataType], rows: int | None) -> AttachedTable:
    dialect = source.source.dialect
    columns = tuple(
        _column(f"c{i}", one, kind, dialect) for i, (one, kind) in enumerate(zip(query.columns, types, strict=True))
    )
    return AttachedTable(
        source.database, source.source, SourceTable("", "a part of the query", columns, rows, query.select())
    )


def _column(name: str, value: Typed, given: pa.DataType, dialect: str) -> Column:
    type_ = pa.string() if pa.types.is_string_view(given) or pa.types.is_large_string(given) else given
    if value.kind == "text":
        return Column(name, "text", type_, key=_by_code_points(dialect), compared="order")
    compared: Compared = "order" if value.kind in _ORDERED else ""
    is_text = value.kind == "decimal" and dialect == "postgres"
    return Column(name, str(given), type_, _as_text if is_text else as_it_is, compared=compared)


def _by_code_points(dialect: str) -> Callable[[exp.Expr], exp.Expr]:
    collation = "C" if dialect == "postgres" else "binary"

    def key(column: exp.Expr) -> exp.Expr:
        return exp.paren(exp.Collate(this=column, expression=exp.to_identifier(collation, quoted=True)))

    return key


def _as_text(column: exp.Expr) -> exp.Expr:
    """Return a number as text: the driver has no decimals."""
    return exp.cast(column, exp.DataType.Type.TEXT)
