"""A sample of the distinct argument tuples of a pass, which does not depend on the order of the rows."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.operators.runtime import Runtime, SpooledArguments

SAMPLED: Final = 128
"""The most tuples of a sample: with two options, the share of one is off by about 4 points."""


def sampled_tuples(
    runtime: Runtime, spooled: SpooledArguments, table: str, schema: pa.Schema, columns: Sequence[int], when: int | None
) -> list[tuple[str | None, ...]]:
    """Return up to `SAMPLED` distinct values of `columns` among the rows of a pass; `when` is the column of its guard.

    The values with the smallest hashes are taken, so equal rows give an equal sample.
    """
    own = list(dict.fromkeys(columns))  # a column can be the value of several fields
    wanted = [*own, *([] if when is None else [when])]
    names = [schema.field(column).name for column in wanted]
    source = table
    if spooled.encoded is not None:  # the rows are in memory, and no table of SQL
        source = f"{table}_sample"
        given = pa.table([spooled.encoded.column(column) for column in wanted], names=names)
        runtime.hold(source, given.schema, given.to_batches(), runtime.context)
    values = ", ".join(names[: len(own)])
    guard = "" if when is None else f" WHERE {names[-1]}"
    # Each value follows its length, so that no two tuples give one text, and all values decide about the place.
    parts = ", ".join(f"coalesce(concat(length({name}), ':', {name}), 'NULL')" for name in names[: len(own)])
    hashed = f"md5(concat({parts}))"
    rows = runtime.sql(f"SELECT DISTINCT {values}, {hashed} FROM {source}{guard} ORDER BY {hashed} LIMIT {SAMPLED}")
    places = [own.index(column) for column in columns]
    return [
        tuple([row[place] for place in places])
        for batch in rows
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
