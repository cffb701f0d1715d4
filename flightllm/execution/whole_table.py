"""Read whole stored tables, for queries that take their columns as they are; keep the decoded rows for a next read."""

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from datafusion import DataFrame, LogicalPlan
from datafusion.expr import Projection, SubqueryAlias, TableScan

from flightllm.catalog.entries import Entry
from flightllm.common.arrow_types import value_width
from flightllm.common.expressions import unaliased
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName
from flightllm.datafusion.run import Batches, until_cancelled
from flightllm.execution.context import Services


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The rows of one state of a stored table: its folder, the wanted columns, and the estimated bytes of these."""

    folder: Path
    columns: tuple[str, ...]
    estimate: int


def whole_table(services: Services, frame: DataFrame) -> WholeTable | None:
    """Return the table whose columns a query returns as they are, for all rows; None for every other query.

    The user's rights are checked by planning. A table with row filters or masks is never returned. Without a cache of
    decoded tables, no table is returned.
    """
    if not services.catalog.store.decoded.is_on:
        return None
    plan = frame.logical_plan()
    columns: list[str] | None = None
    while not isinstance(found := _shown(plan), TableScan):
        if isinstance(found, Projection):
            if columns is not None:  # renamed columns below it would need a second look
                return None
            columns = _columns(found)
        if not isinstance(found, Projection | SubqueryAlias) or columns is None:
            return None
        plan = _input(plan)
    entry = _entry(services, found)
    if entry is None or entry.rows is None or entry.rows.folder is None or not columns:
        return None
    types = {field.name: field.type for field in entry.schema}
    if not types.keys() >= set(columns):
        return None
    rows = sum(file.rows for file in entry.rows.files)
    return WholeTable(entry.rows.folder, tuple(columns), rows * sum(value_width(types[name]) for name in set(columns)))


def _shown(plan: LogicalPlan) -> object:
    """Return a plan's node, or None for a node that DataFusion does not show to Python."""
    try:
        return plan.to_variant()
    except (NotImplementedError, TypeError, ValueError):
        return None


def _input(plan: LogicalPlan) -> LogicalPlan:
    [below] = plan.inputs()
    return below


def _columns(projection: Projection) -> list[str] | None:
    """Return the columns that a projection returns, in order, or None if it computes anything."""
    names = list[str]()
    for expression in projection.projections():
        inner = unaliased(expression)
        if inner.variant_name() != "Column":  # DataFusion does not show every other expression to Python
            return None
        names.append(inner.to_variant().name())
    return names


def _entry(services: Services, scan: TableScan) -> Entry | None:
    """Return the managed table of a scan without conditions; a restricted table's rows are not returned as stored."""
    if scan.filters() or scan.fetch() is not None:
        return None
    catalog, schema, name = scan.fqn()
    if catalog not in {None, CATALOG}:
        return None
    entry = services.catalog.entries.get(TableName(schema or DEFAULT_SCHEMA, name))
    return entry if entry is not None and entry.kind == "managed" and not entry.restricted else None


def read(
    services: Services, table: WholeTable, decode: Callable[[], Batches], cancelled: Callable[[], bool]
) -> Batches:
    """Yield a table's rows from memory; if they are not there, yield those of `decode`, and keep them if they fit.

    Raises:
        CancelledError: `cancelled()` turned true.
    """
    store = services.catalog.store
    found = store.decoded.find(table.folder, table.columns)
    if found is not None:
        yield from until_cancelled(found, cancelled)
        return
    columns = list(dict.fromkeys(table.columns))
    places = [table.columns.index(name) for name in columns]
    copy = store.decoded.start_copy(table.folder, columns, table.estimate)
    with nullcontext() if copy is None else closing(copy), closing(decode()) as batches:
        for batch in batches:
            if copy is not None:
                copy.add([batch.column(place) for place in places])
            yield batch
        if copy is not None:
            copy.keep()
            if not store.reads(table.folder):  # the table was changed meanwhile
                store.decoded.forget(table.folder)
