"""NaN beside one other value: readers must not take the column for a constant."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from flightllm.cli import main

NAN = float("nan")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(path: Path) -> None:
    if path.suffix == ".csv":
        path.write_text("id,v\n1,nan\n2,1.5\n3,1.5\n")
    elif path.suffix == ".jsonl":
        path.write_text('{"id":1,"v":NaN}\n{"id":2,"v":1.5}\n{"id":3,"v":1.5}\n')
    else:
        pq.write_table(pa.table({"id": [1, 2, 3], "v": [NAN, 1.5, 1.5]}), path)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_nan_stays(folder: Path, name: str) -> None:
    """Rows, conditions and aggregates see NaN, which is greater than each number, as in PostgreSQL."""
    _write(folder / name)
    sql = "SELECT id, v, (SELECT count(*) FROM t WHERE v = 1.5) AS n, (SELECT max(v) FROM t) AS m FROM t ORDER BY id"
    ran = CliRunner().invoke(main, ["query", "--open", name, "-o", "out.parquet", sql])
    assert ran.exit_code == 0, ran.output
    table = pq.read_table(folder / "out.parquet")
    assert [math.isnan(value) for value in table["v"].to_pylist()] == [True, False, False]
    assert table["n"].to_pylist() == [2, 2, 2]
    assert math.isnan(table["m"][0].as_py())


def test_a_folder_of_parquet_files(folder: Path) -> None:
    """One part that hides NaN is enough, and a constant column without NaN needs no copy."""
    (folder / "parts").mkdir()
    pq.write_table(pa.table({"v": [1.5, 1.5]}), folder / "parts" / "p_1.parquet")
    pq.write_table(pa.table({"v": [1.5, NAN]}), folder / "parts" / "p_2.parquet")
    ran = CliRunner().invoke(
        main, ["query", "--open", "parts", "--format", "csv", "SELECT count(*) AS n FROM parts WHERE isnan(v)"]
    )
    assert ran.stdout == '"n"\n1\n', ran.output
