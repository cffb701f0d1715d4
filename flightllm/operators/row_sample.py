"""A sample of the distinct argument tuples of a pass, which does not depend on the order of the rows."""

from typing import Final

import pyarrow as pa

from flightllm.operators.runtime import Runtime, SpooledArguments
from flightllm.plan.stages import StageCall

SAMPLED: Final = 128
"""The most tuples of a sample: with two options, the share of one is off by about 4 points."""


def sampled_tuples(
    runtime: Runtime, spooled: SpooledArguments, table: str, schema: pa.Schema, call: StageCall
) -> list[tuple[str | None, ...]]:
    """Return up to `SAMPLED` distinct tuples of a call's fields, among the rows of a pass that need an answer.

    The values with the smallest hashes are taken, so equal rows give an equal sample.
    """
    columns, when = call.arguments[: len(call.ai.fields)], call.when
    own = list(dict.fromkeys(columns))  # a column can be the value of several fields
    wanted = [*own, *([] if when is None else [when])]
    names = [schema.field(column).name for column in wanted]
    source = table
    if spooled.encoded is not None:  # the rows are in memory, and no table of SQL
        source = f"{table}_sample"
        given = pa.table([spooled.encoded.column(column) for column in wanted], names=names)
        runtime.hold(source, given.schema, given.to_batches(), runtime.context)
    values = ", ".join(names[: len(own)])
    required = [names[own.index(columns[field])] for field in sorted(call.ai.required)]
    there = [f"{name} IS NOT NULL" for name in required] or [f"coalesce({values}) IS NOT NULL"]
    needed = " AND ".join([*([] if when is None else [names[-1]]), *there])
    # Each value follows its length, so that no two tuples give one text, and all values decide about the place.
    parts = ", ".join(f"coalesce(concat(length({name}), ':', {name}), 'NULL')" for name in names[: len(own)])
    hashed = f"md5(concat({parts}))"
    source = f"{source} WHERE {needed}"
    rows = runtime.sql(f"SELECT DISTINCT {values}, {hashed} FROM {source} ORDER BY {hashed} LIMIT {SAMPLED}")
    places = [own.index(column) for column in columns]
    return [
        tuple([row[place] for place in places])
        for batch in rows
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
