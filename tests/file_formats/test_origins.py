"""The name of a file, and the keys in the names of its folders, become columns."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.catalog.files import open_file
from flightllm.errors import InvalidInputError
from flightllm.file_formats.conversion import Conversion
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.origins import Origin, add_origins, origins_of

CONTENTS = {"csv": "a,b\n1,x\n2,y\n", "json": '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n'}


def converted(path: Path, form: str = "", **options: str) -> pa.Table:
    """Return the rows of a folder, pattern or file."""
    base = path if path.is_dir() else path.parent
    target = base / "_rows"
    Conversion(path, CsvOptions.of(options), "", target, form).run()
    return pq.read_table(target)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_folders(tmp_path: Path, ending: str) -> None:
    """Keys and names are those of each row's file."""
    for year, city in ((2023, "Los%20Angeles"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "sales" / f"year={year}" / f"city={city}"
        folder.mkdir(parents=True)
        if ending == "parquet":
            pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), folder / "rows.parquet")
        else:
            (folder / f"rows.{ending}").write_text(CONTENTS[ending])
    form = "parquet" if ending == "parquet" else ""
    found = converted(tmp_path / "sales", form, filename="true")
    first, last = (
        f"year=2023/city=Los%20Angeles/rows.{ending}",
        f"year=2024/city=__HIVE_DEFAULT_PARTITION__/rows.{ending}",
    )
    assert found.to_pylist() == [
        {"a": a, "b": b, "year": year, "city": city, "filename": name}
        for year, city, name in ((2023, "Los Angeles", first), (2024, None, last))
        for a, b in ((1, "x"), (2, "y"))
    ]
    assert converted(tmp_path / "sales", form, hive_partitioning="false").column_names == ["a", "b"]


def test_parquet_without_keys(tmp_path: Path) -> None:
    """The option `hive_partitioning` turns the keys of Parquet files off, too."""
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "k=1" / "rows.parquet")
    assert open_file("t", tmp_path).schema.names == ["a", "k"]
    assert open_file("t", tmp_path, CsvOptions(hive_partitioning=False)).schema.names == ["a"]


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_patterns(tmp_path: Path, ending: str) -> None:
    """A pattern inside a folder of keys has these too; files without rows do not matter."""
    folder = tmp_path / "day=01"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.{ending}").write_text(
            CONTENTS[ending] if name != "b" else CONTENTS[ending][:4] * (ending == "csv")
        )
    found = converted(folder / f"*.{ending}", filename="true")
    assert found["day"].to_pylist() == ["01"] * 4
    assert found["filename"].to_pylist() == [f"day=01/a.{ending}"] * 2 + [f"day=01/c.{ending}"] * 2


def test_own_columns_win(tmp_path: Path) -> None:
    """A key that the files have as a column is no further column; a column `filename` refuses the option."""
    folder = tmp_path / "A=7"
    folder.mkdir()
    (folder / "rows.csv").write_text("a,Filename\n1,x\n")
    assert converted(folder / "rows.csv").to_pylist() == [{"a": 1, "Filename": "x"}]
    with pytest.raises(InvalidInputError, match="filename: the files have a column of this name"):
        converted(folder / "rows.csv", filename="true")


def test_other_keys_are_none(tmp_path: Path) -> None:
    """Files with different keys get no columns from them."""
    files = [tmp_path / "a=1" / "x.csv", tmp_path / "b=1" / "x.csv"]
    assert origins_of(files, tmp_path, CsvOptions(), ["c"]) == []


def test_batches_of_several_files(tmp_path: Path) -> None:
    """Rows of several files in one batch, and of one file in several batches, have their own values."""
    target, counts = tmp_path / "rows.parquet", [0, 3, 0, 100_000, 2, 0]
    pq.write_table(pa.table({"a": range(sum(counts))}), target, row_group_size=7_000)
    add_origins(target, counts, [Origin("key", list("abcdef"))])
    found = pq.read_table(target)
    assert found["a"].to_pylist() == list(range(sum(counts)))
    assert found["key"].to_pylist() == ["b"] * 3 + ["d"] * 100_000 + ["e"] * 2
