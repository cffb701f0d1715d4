"""The views as a table that replaces `information_schema.views`, in which DataFusion lists all tables."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa

from flightllm.catalog.entries import Entry
from flightllm.common.names import CATALOG, TableName
from flightllm.errors import NotFoundError

_VIEWS = pa.schema(
    [pa.field(name, pa.string()) for name in ("table_catalog", "table_schema", "table_name", "definition")]
)


class ViewTable:
    """`system.views`: one row for each view; `entries` returns the existing tables."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"views": _VIEWS})

    def __init__(self, entries: Callable[[], Mapping[TableName, Entry]]) -> None:
        self._entries = entries

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows as they are now. `definition` is NULL: a reader of a view cannot see what it reads.

        Raises:
            NotFoundError: there is no table with this name.
        """
        if name not in self.schemas:
            raise NotFoundError(f"there is no system table {name!r}")
        views = sorted(entry.name for entry in self._entries().values() if entry.kind in {"view", "ai_view"})
        rows = [dict(zip(_VIEWS.names, (CATALOG, view.schema, view.name, None), strict=True)) for view in views]
        return pa.Table.from_pylist(rows, schema=_VIEWS)
