"""Finds one field order for a whole call, with long and repetitive fields first.

Rows sorted in this order agree in the leading fields with their neighbours, so their prompts share a prefix.
Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821 v1, prefix sharing maximisation.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FixedOrder:
    """The columns' positions in prompt order, and an estimate of the number of distinct tuples."""

    columns: tuple[int, ...]
    distinct: int


def fixed_order(query: Callable[[str], Iterable[pa.RecordBatch]], table: str, columns: Sequence[str]) -> FixedOrder:
    """Order text `columns` of `table` by descending average length x rows / distinct values.

    The function makes one pass over the table with `query`, which runs SQL. Distinct counts are approximate. Ties keep
    the given order.
    """
    scores = ", ".join(
        f"coalesce(avg(character_length({c})), 0) * count({c}) / greatest(approx_distinct({c}), 1)" for c in columns
    )
    tuples = f"approx_distinct(concat_ws(chr(31), {', '.join(columns)}))"
    (batch,) = query(f"SELECT {scores}, {tuples} FROM {table}")
    *score, distinct = (column[0].as_py() for column in batch.columns)
    return FixedOrder(tuple(sorted(range(len(columns)), key=lambda i: -score[i])), distinct)
