"""Files and folders as tables named after them, through real servers."""

import csv
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_flightsql import dbapi
from click.testing import CliRunner, Result

import flightllm
from flightllm.catalog import Catalog
from flightllm.catalog.configured import register_tables
from flightllm.cli import main
from flightllm.config import CsvFile, LimitsConfig
from flightllm.connection.sources import named_tables
from flightllm.errors import ConfigError
from tests.catalogs import read
from tests.connection.conftest import fake

ROWS = [
    (number, f"Größe {number}" if number % 7 else None, f'Er sagt: "müde";\r\nZeile {number}\nEnde', number % 5 or None)
    for number in range(300)
]


def tickets(path: Path) -> Path:
    """Write 300 rows with line breaks and delimiters in quotes, umlauts in Latin-1, and NULLs."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";")
    writer.writerow(["Nr", "Betreff", "Text", "Stufe"])
    writer.writerows(["" if cell is None else cell for cell in row] for row in ROWS)
    path.write_bytes(text.getvalue().encode("latin-1"))
    return path


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[str]:
    """Run `flightllm serve` in a folder, and yield its address."""
    command = [sys.executable, "-m", "flightllm", "serve", "--engine", "fake", "--no-supervisor"]
    environment = {"FLIGHTLLM_HOME": str(folder / "home")}
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            lines = (line for line in process.stdout or () if line.startswith("listening "))
            yield next(lines).split()[1]
        finally:
            process.terminate()


def test_serve_a_messy_file(tmp_path: Path) -> None:
    """`flightllm serve tickets.csv` answers a client with each row as it is in the file, and asks the model of each."""
    tickets(tmp_path / "tickets.csv")
    filtered = "SELECT count(*), count(ai_filter('Is {Text} about size?', \"Text\")) FROM tickets"
    with (
        served(tmp_path, "tickets.csv") as uri,
        dbapi.connect(uri, autocommit=True) as client,
        client.cursor() as cursor,
    ):
        cursor.execute('SELECT "Nr", "Betreff", "Text", "Stufe" FROM tickets ORDER BY "Nr"')
        assert cursor.fetchall() == ROWS
        cursor.execute(filtered)
        assert cursor.fetchall() == [(300, 300)]


def test_ask_a_file_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`query --open` answers from a file, and keeps the model's answers for the next time."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    path = tickets(tmp_path / "My Tickets.csv")
    arguments = ["query", "--engine", "fake", "--open", str(path), "--format", "csv"]
    result = CliRunner().invoke(main, [*arguments, 'SELECT count(*) AS n, count("Stufe") AS s FROM my_tickets'])
    assert result.stdout.split() == ['"n","s"', "300,240"]
    assert f"note: {path} is the table my_tickets" in result.stderr
    asked = "SELECT count(ai_filter('Big? {Betreff}', \"Betreff\")) AS n FROM my_tickets"
    calls = "SELECT sum(calls) AS c FROM system.ai_calls"
    for expected in ("257", "257"):
        assert CliRunner().invoke(main, [*arguments, asked]).stdout.split()[1] == expected
    assert (tmp_path / "home" / "answers.sqlite").exists()
    assert CliRunner().invoke(main, [*arguments, calls]).exit_code == 0


def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement without AI calls needs no model; one with a call says at once what is wrong with the model."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    (tmp_path / "t.csv").write_text("body\nx\n")
    (tmp_path / "wrong.toml").write_text('[engine]\nkind = "fake"\nnonsense = 1\n')
    arguments = [
        "query",
        "--config",
        str(tmp_path / "wrong.toml"),
        "--open",
        str(tmp_path / "t.csv"),
        "--format",
        "csv",
    ]
    plain = CliRunner().invoke(main, [*arguments, "SELECT count(*) AS n FROM t"])
    assert plain.stdout.split() == ['"n"', "1"]
    asking = CliRunner().invoke(main, [*arguments, "SELECT ai_filter('Big? {body}', body) FROM t"])
    assert asking.exit_code == 1
    assert "nonsense: unknown option of the engine 'fake'" in asking.stderr


def test_options_of_a_server_without_files() -> None:
    """A configuration on a query to a server is refused: that server has its own."""
    result = CliRunner().invoke(main, ["query", "--engine", "fake", "SELECT 1"])
    assert result.exit_code == 2
    assert "work only with --open: a running server has its own" in result.output


def names(*sources: Path | str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the names and file names that sources get, and the notes."""
    notes = list[str]()
    found = named_tables([str(source) for source in sources], notes.append)
    return [(name, Path(str(place)).name) for name, place in found], notes


def test_names(tmp_path: Path) -> None:
    """A name that SQL does not read as it is gets one that it does, with a note; equal ones are numbered."""
    for name in ("tickets.csv", "Q3 Größe.csv", "2024.tsv.gz", "select.csv", "b/tickets.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    files = [tmp_path / name for name in ("tickets.csv", "Q3 Größe.csv", "2024.tsv.gz", "select.csv", "b/tickets.csv")]
    found, notes = names(*files, "s3://bucket/logs/")
    assert [name for name, _ in found] == ["tickets", "q3_größe", "t_2024", "select_table", "tickets_2", "logs"]
    assert notes == [f"{file} is the table {name}" for file, (name, _) in zip(files, found, strict=False)][1:]


def test_folders(tmp_path: Path) -> None:
    """Different files of a folder are a table each, and numbered parts one; others are left out with one note."""
    parts, mixed = tmp_path / "parts", tmp_path / "mixed"
    for folder in (parts, mixed, mixed / "sub"):
        folder.mkdir()
    for name in ("one", "two"):
        pq.write_table(pa.table({"a": [1]}), parts / f"part-{'one two'.index(name)}.parquet")
        pq.write_table(pa.table({name: [1]}), mixed / f"{name}.parquet")
    (mixed / "three.csv").write_text("a;b\n1;2\n")
    (mixed / "sub" / "four.csv").write_text("a;b\n1;2\n")
    (mixed / "README.md").write_text("# Data")
    (mixed / ".secret.csv").write_text("a\n")
    (mixed / "script.py").write_text("pass")
    (parts / "README").write_text("parts")
    both = tmp_path / "both"
    shutil.copytree(parts, both / "reviews")
    (both / "tickets.csv").write_text("a;b\n1;2\n")
    assert names(both)[0] == [("reviews", "reviews"), ("tickets", "tickets.csv")]
    found, notes = names(parts)
    assert found == [("parts", "parts")]
    assert notes == [f"{parts / 'README'} is left out: hidden, or not table files by their names or content"]
    found, notes = names(mixed)
    assert found == [
        (name, f"{name}.{end}")
        for name, end in (("one", "parquet"), ("four", "csv"), ("three", "csv"), ("two", "parquet"))
    ]
    assert [note.split(" left out")[0] for note in notes] == [f"{mixed / '.secret.csv'} and 2 other files are"]


def test_parts_of_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal columns are not enough for one table: the names must be numbered, or folders name columns."""
    for name in ("split/train.csv", "split/test.csv", "days/2024-01.csv", "days/2024-02.csv", "days/2024-02.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a,b\n1,2\n3,4\n")
    for year, country in ((2023, "fr"), (2024, "de")):
        place = tmp_path / "sales" / f"year={year}" / f"country={country}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"a": [year - 2000]}), place / f"{country}.parquet")
    assert names(tmp_path / "split")[0] == [("test", "test.csv"), ("train", "train.csv")]
    assert [name for name, _ in names(tmp_path / "days")[0]] == ["t_2024_01", "t_2024_02", "t_2024_02_2"]
    (tmp_path / "days" / "2024-02.txt").unlink()
    assert names(tmp_path / "days")[0] == [("days", "days")]
    assert names(tmp_path / "sales") == ([("sales", "sales")], [])
    assert names(tmp_path / "split" / "t*.csv")[0] == [("test", "test.csv"), ("train", "train.csv")]
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    found = asked(tmp_path / "sales", "SELECT year + 1 AS y, country, a FROM sales WHERE country = 'de'")
    assert found.stdout.replace('"', "") == "y,country,a\n2025,de,24\n"


def test_documents_are_read_once(tmp_path: Path) -> None:
    """A folder of texts is read again only after a change."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("hi")
    with closing(Catalog(LimitsConfig(), None, tmp_path / "data")) as catalog:
        register_tables(catalog, {"t": tmp_path / "notes"})
        name = catalog.table("t").name
        before = catalog.entries[name].source
        assert read(catalog, "SELECT name FROM t") == [{"name": "a.md"}]
        assert catalog.entries[name].source == before
        (tmp_path / "notes" / "b.md").write_text("ho")
        assert read(catalog, "SELECT name FROM t ORDER BY name") == [{"name": "a.md"}, {"name": "b.md"}]


def test_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of texts is one table with a row for each; a delimited text file is a table of its own."""
    notes, mixed = tmp_path / "notes", tmp_path / "mixed"
    for name in ("notes/a.md", "notes/sub/b.txt", "mixed/README.txt", "mixed/c.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name},\nfine, is it not, or")
    (notes / "picture.png").write_bytes(b"\x89PNG")
    (mixed / "t.txt").write_text("a|b\n1|2\n")
    (mixed / "u.dat").write_text("a\tb\n1\t2\n")
    assert names(notes) == ([("notes", "notes")], [])
    assert [name for name, _ in names(mixed)[0]] == ["t", "u"]
    assert names(mixed)[1][0].startswith(f"{mixed / 'README.txt'} and 1 other files are left out")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    found = asked(notes, "SELECT name, path, length(text) AS n FROM notes ORDER BY name").stdout
    assert found.replace('"', "") == "name,path,n\na.md,a.md,33\nb.txt,sub/b.txt,38\n"
    assert asked(mixed / "u.dat", "SELECT a + b AS n FROM u").stdout.splitlines()[1:] == ["3"]
    assert asked(mixed / "c.md", "SELECT name FROM c").stdout.splitlines()[1:] == ['"c.md"']


def asked(path: Path, sql: str) -> Result:
    """Run `flightllm query --open` over a file or folder."""
    return CliRunner().invoke(main, ["query", "--engine", "fake", "--open", str(path), "--format", "csv", sql])


def test_a_bad_file_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a folder that cannot be read is left out with a note that says why; named itself, it is an error."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "good.csv").write_text("a\n1\n")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (folder / "cut.parquet").write_bytes(b"PAR1 is not enough PAR1")
    result = asked(folder, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    assert result.stdout.split() == ['"table_name"', '"good"']
    notes = sorted(line for line in result.stderr.splitlines() if line.startswith("note: "))
    assert notes[0].startswith(f"note: the table cut is left out: cannot read {folder}/cut.parquet as parquet: ")
    assert notes[1].startswith(f"note: the table ragged is left out: {folder}/ragged.csv: ragged.csv: line 3 has 3 col")
    assert len(notes) == 2
    alone = asked(folder / "ragged.csv", "SELECT 1")
    assert alone.exit_code == 1
    assert "ragged.csv: line 3 has 3 columns where the first line has 2" in alone.stderr
    (folder / "good.csv").unlink()
    none = asked(folder, "SELECT 1")
    assert none.exit_code == 1
    assert f"no file of the folder {folder} can be read: cannot read {folder}/cut.parquet" in none.stderr


def test_notes_on_a_file_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`query --open` tells what was found in a file, a line for each, before it answers."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    (tmp_path / "t.csv").write_text("Größe;price;price\n1;12,5;1\n", encoding="latin-1")
    result = asked(tmp_path / "t.csv", "SELECT replace(\"price\", ',', '.')::double AS p FROM t")
    assert result.stdout.split() == ['"p"', "12.5"]
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: t: ")]
    assert [note.split()[2] for note in notes] == ["read", "renamed", "the"]
    assert "the column price stays text, although its values look like numbers with decimal commas" in notes[2]


@pytest.mark.slow
def test_a_server_of_a_folder_with_a_bad_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`flightllm serve` serves the other files of the folder, and offers one of them as an example."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "good.csv").write_text("a\n1\n")
    (tmp_path / "data" / "a_ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    with (
        served(tmp_path, "data") as uri,
        dbapi.connect(uri, autocommit=True) as client,
        client.cursor() as cursor,
    ):
        cursor.execute("SELECT a FROM good")
        assert cursor.fetchall() == [(1,)]
    said = capfd.readouterr().err
    assert "a_ragged.csv: line 3 has 3 columns" in said
    assert "'SELECT * FROM good LIMIT 3'" in said


@pytest.mark.slow
def test_a_bad_spreadsheet_of_a_folder(tmp_path: Path) -> None:
    """A spreadsheet of a folder that cannot be opened is left out with a note; named itself, it is an error."""
    pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
    (tmp_path / "good.csv").write_text("a\n1\n")
    (tmp_path / "bad.xlsx").write_bytes(b"no book")
    found, notes = names(tmp_path)
    assert found == [("good", "good.csv")]
    assert len(notes) == 1
    assert notes[0].startswith(f"left out: {tmp_path}/bad.xlsx: it cannot be read as a spreadsheet: ")
    with pytest.raises(ConfigError, match=r"bad\.xlsx: it cannot be read as a spreadsheet"):
        names(tmp_path / "bad.xlsx")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.csv", "there is no file or folder"),
        ("ftp://x.org/a.csv", "an address begins with https://"),
        ("", "no file"),
    ],
)
def test_what_is_no_source(tmp_path: Path, source: str, message: str) -> None:
    """A source that is not there, or holds no table, is refused with what to do."""
    with pytest.raises(ConfigError, match=message):
        names(source if "://" in source else tmp_path / source)


@pytest.mark.slow
def test_spreadsheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sheet of a spreadsheet is a table: numbers, texts, days and empty cells are what they are."""
    pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Tickets 2024"
    for row in (["id", "Größe", "day", "mixed"], [1, "ä\nö", date(2024, 1, 2), 1], [2, None, None, "x"]):
        book.active.append(row)
    book.create_sheet("prices").append(["name", "price"])
    book["prices"].append(["tea", 1.5])
    book.create_sheet("empty")
    path = tmp_path / "book.xlsx"
    book.save(path)
    assert [name for name, _ in names(path)[0]] == ["book_tickets_2024", "book_prices"]
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    sql = 'SELECT id, "Größe", CAST(day AS DATE) AS day, mixed, price FROM book_tickets_2024, book_prices ORDER BY id'
    result = CliRunner().invoke(main, ["query", "--engine", "fake", "--open", str(path), "--format", "json", sql])
    assert result.stdout.splitlines() == [
        '{"id": 1, "Größe": "ä\\nö", "day": "2024-01-02", "mixed": "1", "price": 1.5}',
        '{"id": 2, "Größe": null, "day": null, "mixed": "x", "price": 1.5}',
    ]


@pytest.mark.slow
def test_no_model_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says that the demonstration model answers, where an AI function is called and nobody named a model."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    (tmp_path / "t.csv").write_text("body\nx\n")
    arguments = ["query", "--open", str(tmp_path / "t.csv")]
    asking = "SELECT ai_filter('Big? {body}', body) FROM t"
    assert CliRunner().invoke(main, [*arguments, "SELECT body FROM t"]).stderr == ""
    assert "no model" not in CliRunner().invoke(main, [*arguments, "--engine", "fake", asking]).stderr
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    said = CliRunner().invoke(main, [*arguments, asking]).stderr
    assert said.count("note: no model is configured, so the demonstration model answers AI functions") == 1
    assert "`flightllm init` chooses a model" in said


def test_options_of_csv_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--csv` says how the files are written, and statements can read other files of the user."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x\nzip;day\n01;1/2/2024\n")
    (tmp_path / "o.json").write_text('{"a": 1}')
    options = [part for one in ("skip=1", "types=zip=text", "dates=dmy") for part in ("--csv", one)]
    sql = "SELECT zip, day, a FROM t, read_json('o.json')"
    result = CliRunner().invoke(main, ["query", "--open", "t.csv", *options, "--format", "json", sql])
    assert result.stdout == '{"zip": "01", "day": "2024-02-01", "a": 1}\n'
    wrong = CliRunner().invoke(main, ["query", "--open", "t.csv", "--csv", "delimiter=xx", "SELECT 1"])
    assert "delimiter: expected one character" in wrong.output
    alone = CliRunner().invoke(main, ["query", "--csv", "skip=1", "SELECT 1"])
    assert "--csv work only with --open" in alone.output
    named = CsvFile(tmp_path / "t.csv", (("skip", "x"),))
    with (
        closing(Catalog(LimitsConfig(), None, tmp_path / "data")) as catalog,
        pytest.raises(ConfigError, match="expected a number"),
    ):
        register_tables(catalog, {"t": named})


def test_own_data_folders_are_no_tables(tmp_path: Path) -> None:
    """A folder leaves out FlightLLM's data folders and caches below it; a data folder itself is an error."""
    home = tmp_path / "home"
    with flightllm.connect(data_folder=tmp_path / "mine", config=fake(home)) as connection:
        connection.sql("CREATE TABLE t AS SELECT ai_gen('x {a}', a) AS b FROM (VALUES ('a')) AS v(a)")
    (tmp_path / "answers.csv").write_text("a\n1\n")
    assert (home / "answers.sqlite").is_file()
    assert [name for name, _ in named_tables([str(tmp_path)], lambda _: None)] == ["answers"]
    with pytest.raises(ConfigError, match="is a data folder of FlightLLM"):
        named_tables([str(tmp_path / "mine")], lambda _: None)
