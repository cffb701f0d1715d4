"""Plan and run searches in vector indexes: check calls, embed queries once, and apply conditions on rows."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.names import TableName, table_name
from flightllm.errors import InvalidInputError, NotFoundError, SqlError
from flightllm.execution.backends import embed_kept
from flightllm.execution.context import Services
from flightllm.execution.index_condition import rows_where
from flightllm.optimizer.nearest_by_index import Nearest
from flightllm.sql.semantic_joins import SemanticJoin
from flightllm.sql.table_functions import TableCall
from flightllm.vector.index import VectorIndex
from flightllm.vector.status import status


class PlannedIndex:
    """An index as an SQL call sees it during planning."""

    def __init__(self, index: VectorIndex, services: Services) -> None:
        self._index = index
        self._services = services
        self.name = index.manifest.name
        self.generation = index.manifest.generation
        self.rows = index.rows
        self.of_vectors = not index.manifest.model

    def check(self, condition: str, mode: str) -> None:
        """Check that a condition and a mode fit the index.

        Raises:
            SqlError: `condition` is not a condition over the index's columns, or the index has no text to search. The
                index's vectors come from another model than the server's.
        """
        built = self._index.manifest
        if mode != "vector" and not built.model:
            raise SqlError(f"the vector index {self.name!r} has vectors without text: write mode => 'vector'")
        if mode != "text" and built.model and built.revision != self._services.backends.embedder().revision:
            served = self._services.config.embedding.model
            other = (
                f"the embedding model {built.model!r}" if built.model != served else f"another version of {served!r}"
            )
            raise SqlError(
                f"the vector index {self.name!r} was built with {other}, but this server has {served!r}: write"
                f" REFRESH VECTOR INDEX {self.name} to build it again; mode => 'text' needs no model"
            )
        if condition:
            rows_where(self._index, condition, self._services.config.limits)


def search_table(call: TableCall, rows: Callable[[str], pa.Table]) -> pa.Table:
    """Run a search in FROM; return the rows found, with their scores.

    `rows` runs SQL to its end.

    Raises:
        FlightLLMError: the call is wrong, or its index cannot be searched.
    """
    return _columns(rows(f"SELECT {call.text} AS __near"), f"{call.text}: in FROM")


def join_table(join: SemanticJoin, services: Services, rows: Callable[[str], pa.Table]) -> tuple[pa.Table, str]:
    """Return the rows found for each query of a join, and the name of the column with the query.

    `rows` runs SQL to its end.

    Raises:
        SqlError: the index belongs to another table than the join, or the call returns only some columns.
        PermissionDeniedError: the user cannot read the table.
    """
    table = TableName(*services.indexes.manifest(join.index).table)
    services.catalog.check_unrestricted(table)
    if table != join.table:
        raise SqlError(
            f"{join.text}: the index belongs to {table.display!r}: join this table, not {join.table.display!r}"
        )
    found = rows(join.pairs)
    columns = _columns(found, f"{join.text}: after ON")
    query = next(name for name in map(_query_column, count(1)) if name not in columns.column_names)
    parents = pc.list_parent_indices(found.column("__near").combine_chunks())
    return columns.append_column(query, found.column("query").combine_chunks().take(parents)), query


def _query_column(place: int) -> str:
    return "__query" if place == 1 else f"__query_{place}"


def _columns(found: pa.Table, where: str) -> pa.Table:
    """Return the rows in the lists of the column `__near`."""
    near = found.column("__near").combine_chunks()
    if not pa.types.is_struct(near.type.value_type):
        raise SqlError(f"{where} a search returns all columns: leave out returning, and name the columns in SELECT")
    return pa.table(near.flatten().flatten(), [*near.type.value_type.names])


@dataclass(frozen=True, slots=True)
class NearestRows:
    """The rows of a table that an index found, and the name of the index."""

    index: str
    rows: pa.Table


_SPARE = 10
"""Extra rows, because the index can treat different distances as equal; an exact comparison follows."""


def nearest_rows(
    nearest: Nearest, services: Services, matching: Callable[[pa.Table], pa.ChunkedArray]
) -> NearestRows | None:
    """Return the nearest rows from an index that is up to date and has all columns; None if no index fits.

    `matching` tells for each row whether the conditions are true.
    """
    try:
        table = table_name(list(nearest.scan.rel.named_table.names))
    except SqlError:  # the table belongs to the query's own catalog
        return None
    columns = nearest.scan.columns
    for name in services.indexes.names():
        with suppress(InvalidInputError, NotFoundError):  # the index is damaged, or was dropped meanwhile
            manifest = services.indexes.manifest(name)
            fits = manifest.table == (table.schema, table.name) and manifest.column == columns[nearest.column]
            fits = fits and manifest.options.metric == "cosine" and not (manifest.left_out and nearest.nulls_first)
            fits = fits and status(manifest, services.catalog.revision, services.config.embedding.model) == "ready"
            if fits and manifest.revision == services.backends.embedder().revision:
                index = services.indexes.open(name)
                if set(columns) <= set(index.rows.schema.names):
                    rows = index.rows.select(columns)
                    within = np.asarray(pc.fill_null(matching(rows), fill_value=False)) if nearest.conditions else None
                    embed = embed_kept(services.backends.embedder, services.cache, "document")
                    found = index.search(nearest.rows + _SPARE, "vector", None, embed([nearest.text]), within)
                    there = len(rows) if within is None else int(within.sum())
                    if len(found.ids) >= (nearest.rows if manifest.left_out else min(nearest.rows, there)):
                        return NearestRows(name, rows.take(pa.array(np.sort(found.ids))))
    return None
