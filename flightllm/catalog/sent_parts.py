"""The parts of a query's plan that run at attached databases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema, Table
from substrait.algebra_pb2 import Expression, ReadRel
from substrait.plan_pb2 import Plan

from flightllm.attached.keys import Keys, Stopped
from flightllm.attached.pushed.cut import send_parts
from flightllm.attached.pushed.reduce import reduce_scans
from flightllm.attached.scan import AttachedTable
from flightllm.catalog.entries import Entry
from flightllm.catalog.sizes import table_size
from flightllm.catalog.store import TableStore
from flightllm.common.names import DEFAULT_SCHEMA, STORED_SUFFIX, TableName
from flightllm.datafusion.contexts import QueryContext
from flightllm.datafusion.run import Loop
from flightllm.datafusion.table_size import TableSize
from flightllm.errors import InternalError
from flightllm.plan import expressions as ex
from flightllm.plan.bounds import Unbounded
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Node, Project, Scan, walk
from flightllm.plan.planner import plan_query
from flightllm.plan.stages import scan, stage_frame
from flightllm.plan.substrait import NotExpressibleError, messages, to_plan

SENT_CATALOG: Final = "sent"
"""The catalog of a query's own context that holds the scans of its parts."""
_SCHEMA: Final = "sent_parts"
Sizes: TypeAlias = Callable[[str, str], TableSize | None]


@dataclass(slots=True)
class SentParts:
    """The parts of one query, as tables of its contexts."""

    store: TableStore
    loop: Loop
    fresh: Callable[[], SessionContext]
    """Returns a context with all tables that the query can read."""
    context: SessionContext
    """The context in which the plan was made."""
    functions: Functions
    parts: dict[str, AttachedTable] = field(default_factory=dict)

    def cut(self, root: Node) -> Node:
        """Return a plan in which each part is a scan; the same object if nothing goes out.

        DataFusion cannot hand a condition with a constant, such as `NULL OR a = 1`, to a scan of Python. It then plans
        the query without conditions in scans, which a plan that went through here has already.
        """
        scans = [node.rel for node in walk(root) if isinstance(node, Scan)]
        if any(rel.HasField("filter") and any(map(_is_truth, ex.walk(rel.filter))) for rel in scans):
            return root
        return reduce_scans(send_parts(root, self.functions, self), self.functions, self)

    def register(self, context: SessionContext) -> None:
        """Add the parts to another context of the query."""
        for name, part in self.parts.items():
            self._register(context, name, part)

    def read_keys(self, stopped: Stopped) -> None:
        """Read the keys of joins, before the query begins; the keys of a later part can need those of earlier ones."""
        for part in self.parts.values():
            if part.keys is not None:
                part.keys.read(stopped)

    def are_read_by(self, plan: Plan) -> bool:
        """Return whether a plan reads one of the parts."""
        return any(".".join(table.names) in self.parts for table in messages(plan, ReadRel.NamedTable))

    def table(self, rel: ReadRel) -> AttachedTable | None:
        """Return the table or part of an attached database that a scan reads; None for each other table.

        Planning has checked the user's rights. Under row filters and masks, the plan reads the table's hidden name.
        """
        entry = self._entry(rel)
        return self.parts.get(".".join(rel.named_table.names)) if entry is None else entry.attached

    def _entry(self, rel: ReadRel) -> Entry | None:
        if rel.WhichOneof("read_type") != "named_table":
            return None
        schema, name = ["", DEFAULT_SCHEMA, *rel.named_table.names][-2:]
        return self.store.entries.get(TableName(schema, name.removesuffix(STORED_SUFFIX)))

    def rows(self, rel: ReadRel) -> int | None:
        """Return the number of rows of a table, about; None if it is not known."""
        entry = self._entry(rel)
        if entry is None or entry.attached is not None:
            table = self.table(rel)
            return None if table is None else table.rows
        size = table_size(entry)
        return None if size is None else size.rows

    def types(self, node: Node) -> list[pa.DataType]:
        """Return the types of the columns of a part."""
        return list(stage_frame(self.context, to_plan(node, self.functions)).schema().types)

    def put(self, part: AttachedTable) -> Scan:
        """Add a part to the context of planning, and return its scan."""
        return scan(self.context, self._added(part))

    def limited(self, rel: ReadRel, keys: Keys) -> Scan:
        """Return the scan of a table that returns only rows with some keys."""
        table = self.table(rel)
        if table is None:
            raise InternalError("keys are for tables of attached databases")
        copy = ReadRel()
        copy.CopyFrom(rel)
        name = self._added(AttachedTable(table.database, table.source, table.table, keys))
        copy.named_table.names[:] = name.split(".")
        return Scan(copy)

    def keys(self, side: Node, key: Expression, column: str) -> Keys:
        """Return the values of an expression over a side of a join, as keys for a column."""
        plan = to_plan(Project(side, (key,)), self.functions)

        def find(stopped: Stopped) -> Iterator[pa.RecordBatch]:
            context = self.fresh()
            self.register(context)
            yield from self.loop.stream(stage_frame(context, plan), stopped)

        return Keys(column, find)

    def _added(self, part: AttachedTable) -> str:
        name = f"{SENT_CATALOG}.{_SCHEMA}.part{len(self.parts)}"
        self.parts[name] = part
        self._register(self.context, name, part)
        return name

    def _register(self, context: SessionContext, name: str, part: AttachedTable) -> None:
        if SENT_CATALOG not in context.catalog_names():  # its first part
            context.register_catalog_provider(SENT_CATALOG, Catalog.memory_catalog())
            context.catalog(SENT_CATALOG).register_schema(_SCHEMA, Schema.memory_schema())
            if isinstance(context, QueryContext):
                context.sizes = partial(self._size, context.sizes)
        context.register_table(name, Table(part))

    def _size(self, others: Sizes | None, schema: str, name: str) -> TableSize | None:
        part = self.parts.get(f"{SENT_CATALOG}.{schema}.{name}")
        if part is not None:
            return None if part.rows is None else TableSize(part.rows)
        return None if others is None else others(schema, name)


def _is_truth(expression: Expression) -> bool:
    """Return whether an expression is a constant truth value or NULL."""
    kind = expression.literal.WhichOneof("literal_type") if expression.WhichOneof("rex_type") == "literal" else ""
    return kind == "boolean" or (kind == "null" and expression.literal.null.WhichOneof("kind") == "bool")


def sent_frame(
    parts: Callable[[Functions], SentParts], frame: DataFrame, unbounded: Unbounded | None
) -> tuple[DataFrame, SentParts] | None:
    """Return a frame of a query without calls whose parts run at attached databases; None if nothing goes out.

    `parts` makes the parts of the query's context. `unbounded` tells why the query can exceed its limits here.
    """
    found = parts(Functions({}))
    if not _names_attached(found.store, frame) or (unbounded is not None and unbounded.while_planned):
        return None
    try:
        read = plan_query(found.context, frame, {})
        found = parts(read.functions)
        root = found.cut(read.root)
        return None if root is read.root else (stage_frame(found.context, to_plan(root, read.functions)), found)
    except NotExpressibleError:
        return None


def _names_attached(store: TableStore, frame: DataFrame) -> bool:
    text = frame.logical_plan().display_indent()
    return any(f"TableScan: {name}" in text for name in store.attached.all)
