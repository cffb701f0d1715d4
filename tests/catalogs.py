"""A catalog under test: how statements run against it, and files for it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import DataFrame
from pyarrow import csv, feather

from flightllm.catalog import QUERY_ONLY, Catalog, mapped_error
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText

ROWS = pa.table({"id": [1, 2, 3], "Review/Text": ["a", "b", None]})
ENCODED = pa.table(
    {
        "large": pa.array(["x", "y"], pa.large_string()),
        "View": pa.array(["x", "y"], pa.string_view()),
        "code": pa.array(["x", "y"]).dictionary_encode(),
    }
)


def read(catalog: Catalog, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query, run as a client's would be."""
    try:
        with catalog.reading():
            batches = frame(catalog, sql).collect()
    except Exception as error:
        raise mapped_error(error) from error
    return [row for batch in batches for row in batch.to_pylist()]


def frame(catalog: Catalog, sql: str) -> DataFrame:
    """Plan a query as a client's would be."""
    try:
        return catalog.context().sql_with_options(sql, QUERY_ONLY)
    except Exception as error:
        raise mapped_error(error) from error


def register_file(catalog: Catalog, name: str, path: Path | str) -> list[str]:
    """Register a file, a folder or an address under a name, as a table of the configuration; return the notes."""
    return catalog.register_opened(name, path, *catalog.open_file(name, path))


def run(catalog: Catalog, *statements: str) -> int:
    """Run statements that change tables; return what the last one affected."""
    return [_run(catalog, sql) for sql in statements][-1]


def _run(catalog: Catalog, sql: str) -> int:
    statement = classify(ParsedText(sql))
    if statement.kind != "insert":
        return catalog.execute(statement)
    rows = frame(catalog, statement.query or "")
    return catalog.insert(statement, rows.schema(), rows.collect())


def ingest(catalog: Catalog, name: str, columns: dict[str, Any], mode: Any = "create") -> int:
    """Upload columns as one batch."""
    batch = pa.record_batch(columns)
    return catalog.ingest(name, batch.schema, [batch], mode)


def write(path: Path, table: pa.Table) -> Path:
    """Write a table in the format that the path's suffix asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path)
        case ".csv":
            csv.write_csv(table, path)
        case ".tsv":
            csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))
        case ".feather":
            feather.write_feather(table, path, compression="uncompressed")
        case ".arrow":
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        case _:
            table.to_pandas().to_json(path, orient="records", lines=True)
    return path
