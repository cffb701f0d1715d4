"""Files and folders as tables: formats, names, and what cannot be one."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from datafusion.substrait import Consumer, Producer
from openpyxl import Workbook
from structlog.testing import capture_logs

from flightllm.catalog import Catalog
from flightllm.common.names import TableName
from flightllm.config import LimitsConfig, StorageConfig
from flightllm.errors import CancelledError, ConfigError, FlightLLMError, PermissionDeniedError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText, mentions
from tests.catalogs import ENCODED, ROWS, frame, ingest, read, register_file, run, write
from tests.servers import await_true

LARGE = pa.large_list(pa.int8())


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "json", "jsonl", "ndjson", "arrow", "feather"])
def test_files_and_folders(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    """Every format is read from one file and from a folder of files; odd column names survive."""
    write(tmp_path / "parts" / f"one.{suffix}", ROWS)
    write(tmp_path / "parts" / f"two.{suffix}", ROWS)
    register_file(catalog, "one", tmp_path / "parts" / f"one.{suffix}")
    register_file(catalog, "parts", tmp_path / "parts")
    assert read(catalog, 'SELECT id, "Review/Text" AS t FROM one ORDER BY id')[:2] == [
        {"id": 1, "t": "a"},
        {"id": 2, "t": "b"},
    ]
    assert read(catalog, "SELECT count(*) AS n FROM parts") == [{"n": 6}]
    assert catalog.columns_of("one") == ["id", "Review/Text"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_encoded_strings_become_plain(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    """Large, view and dictionary strings are plain Utf8 in the schema, in results and across Substrait."""
    register_file(catalog, "t", write(tmp_path / f"t.{suffix}", ENCODED))
    assert set(catalog.table("t").schema.types) == {pa.string()}
    planning, full = catalog.context(planning=True), catalog.context()
    plan = Producer.to_substrait_plan(
        planning.sql("SELECT * FROM t WHERE large = 'x'").optimized_logical_plan(), planning
    )
    batches = full.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(full, plan)).collect()
    assert set(batches[0].schema.types) == {pa.string()}
    assert sum(batch.num_rows for batch in batches) == 1


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("column", "plain"),
    [
        (pa.array([["a"], None, []], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array([["a", "b"], None], pa.list_(pa.large_string(), 2)), pa.list_(pa.string(), 2)),
        (pa.array([[("a", [1])], None], pa.map_(pa.string(), LARGE)), pa.map_(pa.string(), pa.list_(pa.int8()))),
        (pa.array([{"x": [1]}, None], pa.struct([("x", LARGE)])), pa.struct([("x", pa.list_(pa.int8()))])),
    ],
    ids=["list", "fixed list", "map", "struct"],
)
def test_encoded_lists_become_plain(
    catalog: Catalog, tmp_path: Path, suffix: str, column: pa.Array, plain: pa.DataType
) -> None:
    """Large lists, as Polars writes them, are plain lists like those of an upload, inside other values too."""
    register_file(catalog, "t", write(tmp_path / f"t.{suffix}", pa.table({"c": column})))
    assert catalog.table("t").schema.types == [plain]
    assert read(catalog, "SELECT c FROM t") == [{"c": value} for value in column.to_pylist()]


def test_names_fold_as_in_sql(catalog: Catalog, tmp_path: Path) -> None:
    """Unquoted names fold to lower case, quoted ones stay, and a schema is made where one is named."""
    path = write(tmp_path / "t.parquet", ROWS)
    for name in ("Movies", '"Old Movies"', "archive.Movies"):
        register_file(catalog, name, path)
    for table in ("MOVIES", '"Old Movies"', "archive.movies", "flightllm.public.movies"):
        assert read(catalog, f"SELECT count(*) AS n FROM {table}") == [{"n": 3}]
    assert catalog.columns_of("Old Movies") == catalog.columns_of("archive.Movies") == ROWS.column_names


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        ({}, "none.parquet", "there is no file or folder"),
        ({"t.bin": "x"}, "t.bin", "format .* is unknown"),
        ({"d/.hidden": ""}, "d", "has no file"),
        ({"d/a.csv": "a\n1", "d/b.json": "{}"}, "d", "mixes .csv, .json"),
        ({"t.parquet": "no parquet"}, "t.parquet", "cannot read .* as parquet"),
        ({"t.parquet": "PAR1 is not enough PAR1"}, "t.parquet", "it is damaged; write the file again"),
        ({"t.csv": ""}, "t.csv", "no columns"),
        ({"t.json": "[1}"}, "t.json", "t.json: line 1, column 3: expected ',' or ']'"),
    ],
)
def test_bad_files(catalog: Catalog, tmp_path: Path, files: dict[str, str], path: str, message: str) -> None:
    """A file that cannot be a table is refused at start, with the table's name and the reason."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=f"table 't': .*{message}"):
        register_file(catalog, "t", tmp_path / path)


def test_what_was_found_is_noted(catalog: Catalog, tmp_path: Path) -> None:
    """The log says of a CSV file what can be wrong: its encoding, and columns with other names than in the file."""
    (tmp_path / "t.csv").write_text("name;name\nJörg;Köln\n", encoding="latin-1")
    with capture_logs() as logs:
        register_file(catalog, "t", tmp_path / "t.csv")
    warnings = [event["event"] for event in logs if event["log_level"] == "warning"]
    assert "read as cp1252" in warnings[0]
    assert warnings[1] == "renamed columns: name → name_1"
    assert read(catalog, "SELECT * FROM t") == [{"name": "Jörg", "name_1": "Köln"}]


def test_a_csv_file_that_changes(catalog: Catalog, tmp_path: Path) -> None:
    """The next query, of a view too, reads what a CSV file has by then; a broken one is an error until it is mended."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n")
    register_file(catalog, "t", path)
    run(catalog, "CREATE VIEW v AS SELECT a + 1 AS a FROM t")
    assert read(catalog, "SELECT a FROM v") == [{"a": 2}]
    before = catalog.revision(catalog.table("t").name)
    path.write_text("a,b\n1,x\n2,y\n")
    assert read(catalog, "SELECT a FROM v ORDER BY a") == [{"a": 2}, {"a": 3}]
    assert catalog.revision(catalog.table("t").name) != before
    path.write_text("a,b\n1,x\n2\n")
    for name in ("t", "v"):
        with pytest.raises(Exception, match=r"the file of the table 't' cannot be read: t.csv: line 3 has 1 column "):
            read(catalog, f"SELECT a FROM {name}")
    path.write_text("a,c\nz,x\n")
    assert read(catalog, "SELECT a, c FROM t") == [{"a": "z", "c": "x"}]


def test_a_query_keeps_the_rows_it_began_with(catalog: Catalog, tmp_path: Path) -> None:
    """Who reads a CSV file while it changes sees it as it was."""
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    register_file(catalog, "t", path)
    with catalog.reading():
        planned = frame(catalog, "SELECT a FROM t")
        path.write_text("a\n1\n2\n")
        assert read(catalog, "SELECT count(*) AS n FROM t") == [{"n": 2}]
        assert sum(batch.num_rows for batch in planned.collect()) == 1


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
def test_compressed_json_lines(catalog: Catalog, tmp_path: Path, ending: str) -> None:
    """Compressed JSON lines are read from a file and from a folder; compressed Parquet is refused by its name."""
    content = b'{"a": 1}\n{"a": 2}\n'
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    }
    packed = packers[ending](content)
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl.{ending}").write_bytes(packed)
    register_file(catalog, "one", tmp_path / f"one.jsonl.{ending}")
    register_file(catalog, "parts", tmp_path)
    assert read(catalog, "SELECT sum(a) AS s, (SELECT sum(a) FROM parts) AS p FROM one") == [{"s": 3, "p": 6}]
    (tmp_path / f"t.parquet.{ending}").write_bytes(packed)
    with pytest.raises(ConfigError, match=r"format of .* is unknown"):
        register_file(catalog, "t", tmp_path / f"t.parquet.{ending}")


def test_a_folder_with_texts_beside_its_data(catalog: Catalog, tmp_path: Path) -> None:
    """A README and hidden files in a folder are no data; CSV files with other columns are an error that names one."""
    write(tmp_path / "d" / "a.parquet", ROWS)
    write(tmp_path / "c" / "a.csv", ROWS)
    for folder in ("c", "d"):
        (tmp_path / folder / "README.md").write_text("# Data")
        (tmp_path / folder / ".hidden.csv").write_text("x\n1\n")
        register_file(catalog, folder, tmp_path / folder)
        assert read(catalog, f"SELECT count(*) AS n FROM {folder}") == [{"n": 3}]
    (tmp_path / "c" / "b.csv").write_text("id,other\n1,2\n")
    with pytest.raises(
        ConfigError, match=r"b\.csv: its columns are id, other, but those of the first file are id, Review"
    ):
        register_file(catalog, "both", tmp_path / "c")


def test_name_taken_or_malformed(catalog: Catalog, tmp_path: Path) -> None:
    """Two tables cannot share a name, and a name must be one in SQL."""
    path = write(tmp_path / "t.parquet", ROWS)
    register_file(catalog, "t", path)
    for name in ("T", "system.t", "my-table"):
        with pytest.raises(ConfigError):
            register_file(catalog, name, path)


def test_file_tables_are_read_only(catalog: Catalog, tmp_path: Path) -> None:
    """Clients cannot write to, replace or drop what the administrator registered; the folder stays as it was."""
    write(tmp_path / "d" / "t.parquet", ROWS)
    register_file(catalog, "t", tmp_path / "d")
    for sql in (
        "INSERT INTO t SELECT * FROM t",
        "DELETE FROM t",
        "UPDATE t SET id = 1",
        "DROP TABLE t",
        "CREATE OR REPLACE TABLE t (a INT)",
        "CREATE OR REPLACE VIEW t AS SELECT 1",
    ):
        with pytest.raises(PermissionDeniedError):
            run(catalog, sql)
    with pytest.raises(PermissionDeniedError):
        ingest(catalog, "t", {"a": [1]}, "replace")
    assert [file.name for file in (tmp_path / "d").iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_a_file_that_is_gone_is_an_error(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    """A file deleted behind the server's back is no empty table, and its path stays the server's own."""
    path = tmp_path / f"one.{suffix}"
    write(path, ROWS)
    register_file(catalog, "one", path)
    path.unlink()
    with pytest.raises(Exception, match=r"the file of the table 'one' is gone") as raised:
        read(catalog, "SELECT count(*) FROM one")
    assert str(tmp_path) not in str(raised.value)


def _spreadsheet(path: Path, *, whole: bool) -> bytes:
    """Return a spreadsheet of one column; one that is not whole has a sheet that ends early."""
    book = Workbook()
    for row in (["a"], [1]):
        book.active.append(row)
    book.save(path)
    if not whole:
        with ZipFile(path) as packed:
            parts = {name: packed.read(name) for name in packed.namelist()}
        with ZipFile(path, "w") as packed:
            for name, content in parts.items():
                packed.writestr(name, content[:-60] if "sheet1" in name else content)
    return path.read_bytes()


@pytest.mark.parametrize("why", ["unreachable", pytest.param("damaged", marks=pytest.mark.slow)])
def test_one_bad_file_leaves_other_tables_alone(catalog: Catalog, tmp_path: Path, why: str) -> None:
    """A file out of reach, or a damaged spreadsheet, is an error of its table alone, until it is mended."""
    path = tmp_path / ("t.csv" if why == "unreachable" else "t.xlsx")
    good = b"a\n1\n" if why == "unreachable" else _spreadsheet(path, whole=True)
    path.write_bytes(good)
    register_file(catalog, "t", path)
    path.unlink()
    if why == "unreachable":
        path.symlink_to("x" * 300)  # each look at it fails: the name is too long
    else:
        path.write_bytes(_spreadsheet(path, whole=False))
    for _ in range(2):
        assert read(catalog, "SELECT 1 AS one") == [{"one": 1}]
        assert "t" in [info.name.name for info in catalog.tables()]
        with pytest.raises(FlightLLMError, match="the file of the table 't'") as raised:
            read(catalog, "SELECT a FROM t")
        assert str(tmp_path) not in str(raised.value)
    path.unlink()
    path.write_bytes(good)
    assert read(catalog, "SELECT a FROM t") == [{"a": 1}]


def test_only_named_files_are_read_anew(catalog: Catalog, tmp_path: Path) -> None:
    """A statement reads changed files anew for the tables that it names, through views too, and for lists of tables."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x\n1\n")
        register_file(catalog, name, tmp_path / f"{name}.csv")
    run(catalog, "CREATE VIEW v AS SELECT x FROM b")
    columns = "x"
    for text in ("SELECT * FROM v", 'SELECT * FROM public."b"', "SELECT * FROM information_schema.columns", None):
        columns += ",y"
        (tmp_path / "b.csv").write_text(f"{columns}\n{columns}\n")
        before = catalog.entries
        catalog.reading(mentions("SELECT * FROM a")).close()
        assert catalog.entries is before
        catalog.reading(None if text is None else mentions(text)).close()
        assert len(catalog.entries[TableName("public", "b")].schema) == len(columns.split(","))


SLOW = "a;b\n" + '1;5"\n' * 150_000
"""A file that is read row by row, because a quote stands within values."""


def test_a_statement_can_be_stopped_while_a_file_is_read(catalog: Catalog, tmp_path: Path) -> None:
    """Who is stopped waits no longer for a large file; others read their tables, and that file's table comes too."""
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    register_file(catalog, "t", tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(SLOW)
    with pytest.raises(CancelledError):
        catalog.reading(mentions("SELECT * FROM t"), lambda: True)
    with catalog.reading(mentions("SELECT 1")):
        assert frame(catalog, "SELECT 1 AS one").to_pydict() == {"one": [1]}
    assert read(catalog, "SELECT count(*) AS n FROM t") == [{"n": 150_000}]


def test_no_copy_stays_behind(tmp_path: Path) -> None:
    """A CSV file's Parquet file goes where no table takes it: the name is taken, or the table was dropped meanwhile."""
    catalog = Catalog(LimitsConfig(), folder=tmp_path / "home", storage=StorageConfig((tmp_path,)))

    def copies() -> list[Path]:
        return list((tmp_path / "home" / "reading").iterdir())

    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "odd.csv").write_text("a;b\n1;x\n")
    register_file(catalog, "t", tmp_path / "t.csv")
    assert len(copies()) == 1
    with pytest.raises(ConfigError, match="taken"):
        register_file(catalog, "t", tmp_path / "odd.csv")
    assert len(copies()) == 1
    create = f"CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{tmp_path}/odd.csv'"
    with pytest.raises(FlightLLMError, match="'t'"):
        catalog.create_external(classify(ParsedText(create.replace("TABLE e", "TABLE t"))))
    assert len(copies()) == 1
    catalog.create_external(classify(ParsedText(create)))
    (tmp_path / "odd.csv").write_text(SLOW)
    with pytest.raises(CancelledError):
        catalog.reading(mentions("SELECT * FROM e"), lambda: True)
    run(catalog, "DROP TABLE e")
    await_true(lambda: len(copies()) == 1)
    catalog.close()
