"""The rows of a trace's file come in order, and a file that is not a trace is an error that says where."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.mooncake_traces import TraceError, read_rows, seconds

_COLUMNS = ("timestamp", "hash_ids")


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    """Both forms give the same values; the places are lines from 1 on, and rows from 0 on. Empty lines count."""
    lines, table = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    lines.write_text('{"timestamp": 0, "hash_ids": [1, 2]}\n\n{"timestamp": 1500, "hash_ids": [3]}')
    pq.write_table(pa.table({"more": [1, 2], "timestamp": [0, 1500], "hash_ids": [[1, 2], [3]]}), table)
    found = [list(read_rows(path, _COLUMNS)) for path in (lines, table)]
    assert [row for _, row in found[0]] == [row for _, row in found[1]]
    assert [where for where, _ in found[0]] == [f"{lines}, line 1", f"{lines}, line 3"]
    assert [where for where, _ in found[1]] == [f"{table}, row 0", f"{table}, row 1"]
    assert [seconds(where, row) for where, row in found[0]] == [0.0, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no prompts"),
        ("hello", "line 1: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        ("{}\n\n[1]", "line 3: expected an object with timestamp, hash_ids"),
    ],
)
def test_wrong_lines(tmp_path: Path, text: str, message: str) -> None:
    """The error names the line."""
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        list(read_rows(path, _COLUMNS))


def test_wrong_files(tmp_path: Path) -> None:
    """A missing file, a file that is no Parquet file, a missing column, no rows, and bytes."""
    path, text = tmp_path / "trace.parquet", tmp_path / "bytes"
    text.write_bytes(b"\xff\xfe")
    for file, message in ((path, "no such file"), (text, "not a text")):
        with pytest.raises(TraceError, match=message):
            list(read_rows(file, _COLUMNS))
    path.write_text("hello")
    with pytest.raises(TraceError, match="not a Parquet file"):
        list(read_rows(path, _COLUMNS))
    for table, message in (
        (pa.table({"timestamp": [0]}), "no column hash_ids; expected timestamp, hash_ids"),
        (pa.table({"timestamp": [], "hash_ids": []}), "no prompts"),
    ):
        pq.write_table(table, path)
        with pytest.raises(TraceError, match=message):
            list(read_rows(path, _COLUMNS))


@pytest.mark.parametrize("at", ["now", None, True, float("nan"), 10**400])
def test_wrong_times(at: object) -> None:
    """A time is a finite number."""
    with pytest.raises(TraceError, match=r"line 7: timestamp is .*; expected a number of milliseconds"):
        seconds("line 7", {"timestamp": at})
