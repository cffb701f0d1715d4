"""One field order for a whole call, long and repetitive fields first, and the rows sorted by it.

Rows that agree in the leading fields then follow one another and their prompts share a prefix.
Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821 v1, prefix sharing maximisation.
"""

from collections.abc import Sequence

from datafusion import SessionContext


def fixed_order(context: SessionContext, table: str, columns: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of text `columns` of `table` by descending average length x rows / distinct values.

    One pass over the table, with DataFusion's approximate distinct count; ties keep the given order.
    """
    if len(columns) < 2:  # noqa: PLR2004 - nothing to order
        return tuple(range(len(columns)))
    measures = ", ".join(
        f"coalesce(avg(character_length({c})), 0) * count({c}) / greatest(approx_distinct({c}), 1)" for c in columns
    )
    (row,) = context.sql(f"SELECT [{measures}] AS score FROM {table}").to_pylist()  # noqa: S608 - our own names
    score = row["score"]
    return tuple(sorted(range(len(columns)), key=lambda i: -score[i]))
