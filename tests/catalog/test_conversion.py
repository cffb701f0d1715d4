"""Files that would take all memory are refused, and a reading that nobody waits for ends with its process."""

import gzip
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook

from flightllm.catalog.conversion import AT_ONCE, _notes, _place, _run_apart, sheet_names
from flightllm.catalog.converted import converted_table
from flightllm.config import Config, EngineConfig, LimitsConfig, StorageConfig
from flightllm.errors import CancelledError, FlightLLMError, InvalidInputError, LimitExceededError, MissingExtraError
from flightllm.file_formats.conversion import Conversion
from flightllm.file_formats.options import NOTHING_SAID
from flightllm.session.database import Database
from flightllm.storage.folder import TablesFolder
from tests.databases import rows
from tests.servers import await_true

MEMORY = 16 << 20
ROOT = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
 Target="xl/workbook.xml"/></Relationships>"""
SHEET = """<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>"""
BOOK = """<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
 xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>
<sheet name="s" sheetId="1" r:id="rId1"/></sheets></workbook>"""
LINKS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
 Target="worksheets/sheet1.xml"/></Relationships>"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a good file; tests add bad files."""
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "good.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.fixture
def database(tmp_path: Path, place: Path) -> Iterator[Database]:
    """Return a database with little memory that can read the folder."""
    config = Config(
        engine=EngineConfig("fake"),
        data_folder=tmp_path / "data",
        limits=LimitsConfig(memory_bytes=MEMORY),
        storage=StorageConfig((place,)),
    )
    opened = Database.open(config)
    yield opened
    opened.close()


def bad_file(path: Path, kind: str) -> Path:
    """Write a small file that takes much memory when it is read."""
    if kind == "sheet":
        with zipfile.ZipFile(path, "w") as book:
            book.writestr("_rels/.rels", ROOT)
            book.writestr("xl/workbook.xml", BOOK)
            book.writestr("xl/_rels/workbook.xml.rels", LINKS)
            book.writestr("xl/worksheets/sheet1.xml", SHEET)
        return path
    with gzip.open(path, "wb", 1) as file:
        match kind:
            case "line":
                file.write(b'a,b\n1,"' + b"x" * (65 << 20))
            case "value":
                file.write(b'a,b\n1,"' + b"xxxxxxx\n" * (9 << 20))
            case "columns":
                file.write(b"a," * 40_000 + b"\n")
            case "line of objects":
                file.write(b'{"a":"')
                for _ in range(512):
                    file.write(b"x" * (1 << 20))
                file.write(b'"}\n')
            case "object":
                file.write(b'[{"a":[' + b"1," * (20 << 20) + b"1]}]")
    return path


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        pytest.param(
            "line",
            "bad.csv.gz",
            "line 2 has more than 67,108,864 characters: end each row by a line break",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "value", "bad.csv.gz", "line 2: a value has more than 67,108,864 characters", marks=pytest.mark.slow
        ),
        ("columns", "bad.csv.gz", "its first line has 40,001 columns"),
        pytest.param(
            "object",
            "bad.json.gz",
            "reading bad.json.gz takes too much memory; .* memory_bytes = 16,777,216",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "line of objects",
            "bad.jsonl.gz",
            "reading bad.jsonl.gz takes too much memory; .* memory_bytes = 16,777,216",
            marks=pytest.mark.slow,
        ),
        ("sheet", "bad.xlsx", "reading bad.xlsx takes too much memory"),
    ],
)
def test_bad_files(tmp_path: Path, kind: str, name: str, told: str) -> None:
    """A file that would take all memory is refused with what to write instead, and no copy stays."""
    folder = TablesFolder(tmp_path / "tables")
    try:
        path = bad_file(tmp_path / name, kind)
        with pytest.raises((InvalidInputError, LimitExceededError), match=told):
            converted_table(path, NOTHING_SAID, "", folder, 128 << 20 if kind in {"line", "value"} else MEMORY, never)
    finally:
        folder.close(remove=True)


def test_the_server_goes_on(place: Path, database: Database) -> None:
    """Statements that read a bad file fail, each in its way, and other statements go on."""
    session = database.session()
    bad_file(place / "bad.csv.gz", "columns")
    for sql in (
        f"SELECT * FROM '{place}/bad.csv.gz'",
        f"CREATE EXTERNAL TABLE bad STORED AS CSV LOCATION '{place}/bad.csv.gz'",
    ):
        with pytest.raises(FlightLLMError, match="40,001 columns"):
            session.update(sql) if sql.startswith("CREATE") else rows(session, sql)
        assert rows(session, f"SELECT * FROM '{place}/good.csv'") == [{"a": 1, "b": 2}]


def test_nobody_waits(tmp_path: Path) -> None:
    """A reading whose statement is cancelled ends, and its process is gone."""
    path = tmp_path / "long.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * (6 << 20))
    folder = TablesFolder(tmp_path / "tables")
    found, stop = list[BaseException](), list[bool]()

    def read() -> None:
        try:
            converted_table(path, NOTHING_SAID, "", folder, 1 << 30, lambda: bool(stop))
        except CancelledError as error:
            found.append(error)

    thread = Thread(target=read)
    thread.start()
    own = Path("/proc/self/cmdline").read_bytes()
    await_true(lambda: any(Path(f"/proc/{child}/cmdline").read_bytes() not in {b"", own} for child in children(thread)))
    for child in children(thread):  # it cannot end by itself from now on
        os.kill(int(child), signal.SIGSTOP)
    stop.append(True)
    thread.join(60)
    assert found
    assert not children(thread)
    folder.close(remove=True)


@pytest.mark.parametrize("name", ["rows.csv", pytest.param("rows.jsonl", marks=pytest.mark.slow)])
def test_what_a_process_leaves(tmp_path: Path, name: str) -> None:
    """A conversion in a process of its own leaves the rows alone: its notes, which it told in a file, are read."""
    path, target = tmp_path / name, tmp_path / "copy" / "rows.parquet"
    line = '{"a": 1, "b": 2}\n' if name.endswith("jsonl") else "1,2\n"
    path.write_text(("" if name.endswith("jsonl") else "a,b,\n") + line * 1_000)
    target.parent.mkdir()
    notes = _run_apart(Conversion(path, NOTHING_SAID, "", target), 1 << 30, never)
    assert notes == Conversion(path, NOTHING_SAID, "", tmp_path / "again.parquet").run()
    assert [file.name for file in target.parent.iterdir()] == ["rows.parquet"]
    assert pq.read_table(target).column("b").to_pylist() == [2] * 1_000


@pytest.mark.parametrize(
    "name",
    ["rows.csv", pytest.param("rows.json", marks=pytest.mark.slow), pytest.param("rows.jsonl", marks=pytest.mark.slow)],
)
def test_a_copy_that_would_fill_the_disk(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy takes half of the free disk at most; a larger one is refused, with what to do."""
    path, rows = tmp_path / name, [{"a": os.urandom(500).hex()} for _ in range(500)]
    lines = (
        ["a,b\n", *(f"{row['a']},1\n" for row in rows)] if name == "rows.csv" else [f"{json.dumps(r)}\n" for r in rows]
    )
    path.write_text(json.dumps(rows) if name == "rows.json" else "".join(lines))
    (tmp_path / "copy").mkdir()
    monkeypatch.setattr("flightllm.catalog.conversion._free_bytes", lambda _: 200_000)
    with pytest.raises(LimitExceededError, match=f"the copy of {name} takes more than half of the free disk"):
        _run_apart(Conversion(path, NOTHING_SAID, "", tmp_path / "copy" / "rows.parquet"), 1 << 30, never)


def test_a_killed_process_leaves_no_unpacked_file(tmp_path: Path) -> None:
    """A file that a process has taken out of a zip file is gone after the process was killed."""
    path, target = tmp_path / "rows.zip", tmp_path / "copy" / "rows.parquet"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("rows.csv", b"a,b\n" + b"1,2\n" * (6 << 20))
    target.parent.mkdir()
    with pytest.raises(CancelledError):
        _run_apart(
            Conversion(path, NOTHING_SAID, "rows.csv", target),
            1 << 30,
            lambda: any(one.is_dir() for one in target.parent.iterdir()),
        )
    assert not [one for one in target.parent.iterdir() if one.is_dir()]


@pytest.mark.slow
def test_an_error_of_a_process(tmp_path: Path) -> None:
    """An error that a process tells in a file is raised here, and the file is gone."""
    path, target = tmp_path / "rows.csv", tmp_path / "copy" / "rows.parquet"
    path.write_text("a," * 40_000 + "\n")
    target.parent.mkdir()
    with pytest.raises(InvalidInputError, match="40,001 columns"):
        _run_apart(Conversion(path, NOTHING_SAID, "", target), 1 << 30, never)
    assert not target.with_suffix(".told").exists()


def test_the_list_of_sheets(tmp_path: Path) -> None:
    """A process of its own lists the sheets; a spreadsheet that would take all memory is refused."""
    path = tmp_path / "good.xlsx"
    book = Workbook()
    sheet = book.create_sheet("second")
    for row in (["a", "b"], [1, 2]):
        sheet.append(row)
    book.save(path)
    assert sheet_names(path, 1 << 30, never) == ["second"]
    with pytest.raises(LimitExceededError, match=r"reading bad.xlsx takes too much memory"):
        sheet_names(bad_file(tmp_path / "bad.xlsx", "sheet"), MEMORY, never)


def test_the_names_of_a_large_zip_file(tmp_path: Path) -> None:
    """A zip file whose files have too many bytes together is refused, and the refusal counts for its limit."""
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("one.csv", "two.csv", "left_out.bin"):
            file.writestr(name, "a\n" + "1\n" * 50)
    assert sheet_names(path, 1 << 30, never, 204) == ["one.csv", "two.csv"]
    with pytest.raises(
        LimitExceededError, match=r"its files have 204 bytes; \[limits\] upload_bytes = 203 is"
    ) as error:
        sheet_names(path, 1 << 30, never, 203)
    assert error.value.limit == "upload_bytes"


def test_names_that_nobody_waits_for(tmp_path: Path) -> None:
    """The wait for a place to read names in ends with its statement."""
    with ExitStack() as taken:
        for _ in range(AT_ONCE):
            taken.enter_context(_place(never))
        with pytest.raises(CancelledError):
            sheet_names(tmp_path / "book.xlsx", 1 << 30, lambda: True)


def test_a_missing_extra(tmp_path: Path) -> None:
    """An error whose class writes its own text arrives with the text of the process."""
    work = Conversion(tmp_path / "book.xlsx", NOTHING_SAID, "", tmp_path / "rows.parquet")
    told = {"error": "MissingExtraError", "message": "spreadsheets need the extra 'excel'"}
    with pytest.raises(MissingExtraError, match=r"^spreadsheets need the extra 'excel'$"):
        _notes(told, work, MEMORY)


@pytest.mark.slow
def test_conversions_wait_for_each_other(tmp_path: Path) -> None:
    """A conversion beyond the most at a time waits, and its wait ends with its statement."""
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    work = Conversion(tmp_path / "rows.csv", NOTHING_SAID, "", tmp_path / "rows.parquet")
    looks = list[bool]()

    def stopped() -> bool:
        looks.append(True)
        return len(looks) > 3

    with ExitStack() as taken:
        for _ in range(AT_ONCE):
            taken.enter_context(_place(never))
        with pytest.raises(CancelledError):
            _run_apart(work, 1 << 30, stopped)
        assert not work.target.exists()
    _run_apart(work, 1 << 30, never)
    assert work.target.exists()


def never() -> bool:
    """Return that the statement goes on."""
    return False


def children(thread: Thread) -> list[str]:
    """Return the process ids that a thread has started."""
    listed = Path(f"/proc/{os.getpid()}/task/{thread.native_id}/children")
    return listed.read_text().split() if listed.exists() else []


def test_a_process_loads_only_what_it_needs() -> None:
    """The process of a conversion starts without the server's parts, which take longer to load than many files."""
    code = "import sys, flightllm.file_formats.conversion_child; print(*{'datafusion', 'structlog'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
