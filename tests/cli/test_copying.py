"""COPY between tables and the files of the person at the command line."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.cli.copying import CopyFrom, CopyTo, read_copy
from flightllm.demo.process import running_server
from flightllm.errors import FlightLLMError

Run = Callable[[str], Result]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a small table."""
    folder = tmp_path_factory.mktemp("copying")
    (folder / "t.csv").write_text("id,name\n1,Ä\n2,b;c\n")
    with running_server(["--engine", "fake"], {"t": folder / "t.csv"}) as started:
        yield started.uri


@pytest.fixture
def run(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a script of the shell in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda script: CliRunner().invoke(main, [], input=script, env={"FLIGHTLLM_URI": uri})


@pytest.mark.parametrize(
    ("sql", "query", "file", "form"),
    [
        ("COPY (SELECT ')' AS a) TO 'a.parquet'", "SELECT ')' AS a", "a.parquet", "parquet"),
        ("/* x */ copy t to 'b.csv' with (format csv, header true, delimiter ';')", "SELECT * FROM t", "b.csv", "csv"),
        (r"\copy t(Id, name) to c.csv csv header", "SELECT Id, name FROM t", "c.csv", "csv"),
        ("COPY s.\"T\" TO 'd.bin' (FORMAT 'jsonl');", 'SELECT * FROM s."T"', "d.bin", "json"),
        ("COPY t TO STDOUT WITH DELIMITER AS '|' CSV HEADER", "SELECT * FROM t", None, "csv"),
        ("COPY t TO '/x/e.xlsx' (HEADER)", "SELECT * FROM t", "/x/e.xlsx", "xlsx"),
    ],
)
def test_copy_to_is_read(sql: str, query: str, file: str | None, form: str) -> None:
    """The forms of PostgreSQL, psql and DuckDB are known."""
    copy = read_copy(sql)
    assert isinstance(copy, CopyTo)
    assert (copy.sql, copy.output.path, copy.output.form) == (query, None if file is None else Path(file), form)


def test_copy_from_is_read() -> None:
    """The options of a CSV file go to its reader."""
    copy = read_copy("COPY t (a, \"B\") FROM 'x.csv' (FORMAT csv, DELIMITER ';', NULL 'NA', HEADER)")
    options = (("delimiter", ";"), ("null", "NA"), ("header", "true"))
    assert copy == CopyFrom("t", ("t",), 'a, "B"', "x.csv", options)


@pytest.mark.parametrize("sql", ["SELECT 'copy' FROM t", "SELECT copy FROM t", "INSERT INTO copy VALUES (1)"])
def test_other_statements_are_no_copy(sql: str) -> None:
    """The word alone makes no COPY."""
    assert read_copy(sql) is None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("COPY", "must follow COPY"),
        ("COPY t", "TO was expected"),
        ("COPY t TO", "the file is missing"),
        ("COPY (SELECT 1 TO 'a.csv'", "a parenthesis is open"),
        ("COPY t TO 'a.doc'", "one of csv, tsv, json, parquet, xlsx"),
        ("COPY t TO 'a.csv' (PARTITION_BY x)", "no option partition_by"),
        ("COPY t TO 'a.csv' (DELIMITER '::')", "one ASCII character"),
        ("COPY t TO 'a.csv' (HEADER, HEADER false)", "given twice"),
        ("COPY t TO 'a.parquet' (COMPRESSION zip)", "write one of zstd"),
        ("COPY t TO PROGRAM 'gzip'", "PROGRAM is not supported"),
        ("COPY t TO 's3://bucket/a.csv'", "is an address"),
        ("COPY t FROM STDIN", "write the rows to a file"),
        ("COPY t FROM 'x.parquet' (DELIMITER ';')", "only files of CSV have options"),
    ],
)
def test_a_malformed_copy_says_what_to_write(sql: str, said: str) -> None:
    """Each error names the part."""
    with pytest.raises(FlightLLMError) as found:
        read_copy(sql)
    assert said in str(found.value)


def test_rows_go_to_files_and_back(run: Run, tmp_path: Path) -> None:
    """What COPY writes, COPY reads, by names in any case or by the given columns, in one session of a server."""
    ran = run(
        "COPY (SELECT id AS \"ID\", name FROM t ORDER BY id) TO 'a.csv' (DELIMITER ';');\n"
        "CREATE TABLE kept (name TEXT, id BIGINT, more TEXT);\n"
        "\\copy kept from a.csv\n"
        "COPY kept (more, name) FROM 'a.csv' (HEADER true, TYPES 'ID=text');\n"
        "COPY (SELECT id, name, more FROM kept ORDER BY name, id) TO 'b.parquet';\n"
        "DROP TABLE kept;"
    )
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a.csv").read_text() == '"ID";"name"\n1;"Ä"\n2;"b;c"\n'
    assert "2 rows in a.csv" in ran.stderr
    assert pq.read_table(tmp_path / "b.parquet").to_pylist() == [
        {"id": 2, "name": "b;c", "more": None},
        {"id": None, "name": "b;c", "more": "2"},
        {"id": 1, "name": "Ä", "more": None},
        {"id": None, "name": "Ä", "more": "1"},
    ]


def test_names_of_copy_are_found_in_any_case(run: Run, tmp_path: Path) -> None:
    """COPY finds a table and its columns as SELECT does, and keeps names that differ only in case apart."""
    pq.write_table(pa.table({"Id": [1], "id": [2]}), tmp_path / "both.parquet")
    (tmp_path / "two.csv").write_text("x,y\n1,2\n")
    ran = run(
        'CREATE TABLE "Kept" ("Id" BIGINT, id BIGINT, "Name" TEXT);\n'
        "COPY kept FROM 'both.parquet';\n"
        "COPY KEPT (NAME, id) FROM 'two.csv' (HEADER true, TYPES 'x=text');\n"
        "COPY kept (\"Id\", ID, name) TO 'out.csv';\n"
        'DROP TABLE "Kept";'
    )
    assert ran.exit_code == 0, ran.output
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == '"Id","id","Name"'
    assert sorted(lines[1:]) == [',2,"1"', "1,2,"]


def test_wrong_columns_add_nothing(run: Run, tmp_path: Path) -> None:
    """A file whose names are not those of the table is refused with both lists."""
    (tmp_path / "x.csv").write_text("id,other\n1,2\n")
    ran = run("CREATE TABLE kept (id BIGINT, name TEXT);\nCOPY kept FROM 'x.csv';")
    assert ran.exit_code == 1
    assert "the columns of x.csv (id, other) are not those of kept (id, name)" in ran.stderr
    again = run("SELECT count(*) AS n FROM kept;\nDROP TABLE kept;")
    assert "0" in again.stdout


def test_a_failed_copy_leaves_the_old_file(run: Run, tmp_path: Path) -> None:
    """A file is replaced only by a whole result."""
    (tmp_path / "a.csv").write_text("old")
    ran = run("COPY (SELECT 1 / (id - 2) AS n FROM t) TO 'a.csv';")
    assert ran.exit_code == 1
    assert (tmp_path / "a.csv").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
