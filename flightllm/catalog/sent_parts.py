"""The parts of a query's plan that run at attached databases."""

from dataclasses import dataclass, field

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema, Table
from substrait.algebra_pb2 import ReadRel

from flightllm.attached.pushed.cut import send_parts
from flightllm.attached.scan import AttachedTable
from flightllm.catalog.store import TableStore
from flightllm.common.names import STORED_SUFFIX, TableName
from flightllm.plan.bounds import Unbounded
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Node, Scan
from flightllm.plan.planner import plan_query
from flightllm.plan.stages import scan, stage_frame
from flightllm.plan.substrait import NotExpressibleError, to_plan

_CATALOG = "sent"
"""The catalog of a query's own context that holds the scans of its parts."""


@dataclass(slots=True)
class SentParts:
    """The parts of one query, as tables of its contexts."""

    store: TableStore
    context: SessionContext
    """A context with all tables of the query, in which its plan was made."""
    functions: Functions
    parts: dict[str, AttachedTable] = field(default_factory=dict)

    def cut(self, root: Node) -> Node:
        """Return a plan in which each part is a scan; the same object if nothing goes out."""
        return send_parts(root, self.functions, self)

    def register(self, context: SessionContext) -> None:
        """Add the parts to another context of the query."""
        for name, part in self.parts.items():
            _register(context, name, part)

    def table(self, rel: ReadRel) -> AttachedTable | None:
        """Return the table of an attached database that a scan reads; None for each other table.

        Planning has checked the user's rights. Under row filters and masks, the plan reads the table's hidden name.
        """
        if rel.WhichOneof("read_type") != "named_table":
            return None
        schema, name = ["", "", *rel.named_table.names][-2:]
        entry = self.store.entries.get(TableName(schema, name.removesuffix(STORED_SUFFIX)))
        return None if entry is None else entry.attached

    def types(self, node: Node) -> list[pa.DataType]:
        """Return the types of the columns of a part."""
        return list(stage_frame(self.context, to_plan(node, self.functions)).schema().types)

    def put(self, part: AttachedTable) -> Scan:
        """Add a part to the context of planning, and return its scan."""
        name = f"{_CATALOG}.public.part{len(self.parts)}"
        self.parts[name] = part
        _register(self.context, name, part)
        return scan(self.context, name)


def with_sent_parts(
    store: TableStore, context: SessionContext, frame: DataFrame, unbounded: Unbounded | None
) -> DataFrame:
    """Return a frame of a query without calls whose parts run at attached databases.

    It is the same object if nothing goes out. `unbounded` tells why the query can exceed its limits here.
    """
    if not _names_attached(store, frame) or (unbounded is not None and unbounded.while_planned):
        return frame
    try:
        read = plan_query(context, frame, {})
        root = SentParts(store, context, read.functions).cut(read.root)
        return frame if root is read.root else stage_frame(context, to_plan(root, read.functions))
    except NotExpressibleError:
        return frame


def _names_attached(store: TableStore, frame: DataFrame) -> bool:
    text = frame.logical_plan().display_indent()
    return any(f"TableScan: {name}" in text for name in store.attached.all)


def _register(context: SessionContext, name: str, part: AttachedTable) -> None:
    if _CATALOG not in context.catalog_names():  # its first part
        context.register_catalog_provider(_CATALOG, Catalog.memory_catalog())
        context.catalog(_CATALOG).register_schema("public", Schema.memory_schema())
    context.register_table(name, Table(part))
