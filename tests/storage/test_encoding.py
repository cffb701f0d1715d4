"""How columns of data files are encoded."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.storage.encoding import column_encodings
from flightllm.storage.folder import TablesFolder
from flightllm.storage.rows import read_rows, write_rows

ROWS = 1_000


def test_texts_are_compressed_and_numbers_are_not() -> None:
    """Texts get LZ4 and a dictionary, numbers no compression, and a dictionary only where they repeat."""
    rows = pa.table({"text": ["a b"] * ROWS, "id": range(ROWS), "stock": [i % 9 for i in range(ROWS)]})
    found = column_encodings(rows.schema, rows.to_batches())
    assert found == {"compression": {"text": "lz4"}, "use_dictionary": ["text", "stock"]}


def test_parts_of_values_are_named_by_their_parquet_columns() -> None:
    """Lists, structs and maps are several Parquet columns, each with its path."""
    rows = pa.table(
        {
            "a.b": [1],
            "list": [[{"x": 1}]],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    found = column_encodings(rows.schema, rows.to_batches())
    assert list(found["compression"]) == ["list.list.element.x", "map.key_value.key", "map.key_value.value"]


@pytest.mark.parametrize("values", [[None] * ROWS, [float("nan")] * ROWS, [i * 0.5 for i in range(ROWS)]])
def test_rows_come_back(tmp_path: Path, values: list[float | None]) -> None:
    """What is written is read again, also from columns of NULL or NaN, under names with dots and quotes."""
    rows = pa.table({'x.y "z"': pa.array(values, pa.float64()), "s": ["é" * (i % 7) for i in range(ROWS)]})
    folder = TablesFolder(tmp_path)
    try:
        stored = write_rows(folder, rows.schema, rows.to_batches(100))
        assert stored is not None
        path = folder.file(stored.name)
        assert pq.ParquetFile(path).metadata.row_group(0).column(1).compression == "LZ4"
        read = pa.Table.from_batches(read_rows([path], rows.schema))
        assert [str(row) for row in read.to_pylist()] == [str(row) for row in rows.to_pylist()]
    finally:
        folder.close(remove=True)
