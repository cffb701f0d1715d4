"""The values of JSON columns as a table stores them: checked texts, and one form for jsonb."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from flightllm.common.json_columns import JSONB, json_types
from flightllm.errors import SqlError
from flightllm.functions.jsonb import jsonbs, jsons

_OF_TEXTS = frozenset({"json", JSONB})


def stored_json(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table with its schema; each jsonb has sorted keys, as a cast to jsonb writes it.

    Raises:
        SqlError: a value of a column of json or jsonb is not JSON.
    """
    types = {name: kind for name, kind in json_types(schema).items() if kind in _OF_TEXTS}
    if not types:
        yield from batches
        return
    for batch in batches:
        columns = [
            _stored(field.name, types[field.name], column) if field.name in types else column
            for field, column in zip(schema, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _stored(name: str, kind: str, texts: pa.Array) -> pa.Array:
    try:
        return jsonbs(texts) if kind == JSONB else jsons(texts)
    except SqlError as error:
        raise SqlError(f"invalid input syntax for type json in the column {name!r}: {error}") from error
