"""Digests of data files: right after each change, compared after a start; a damaged file gives errors, not rows."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from flightllm.catalog import Catalog
from flightllm.cli import main
from flightllm.config import Config, EngineConfig, LimitsConfig
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.observe.query_record import CancelToken
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.storage import digest, file_check
from flightllm.storage.backup import back_up
from flightllm.storage.file_check import FileCheck, FileStatus
from flightllm.storage.sealed import sealed
from tests.catalogs import ingest, read, run
from tests.databases import ask
from tests.servers import await_true

_SECONDS = 60


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    """Return a function that opens the catalog anew; with `check`, it waits until the files were compared."""
    opened: list[Catalog] = []

    def another(*, check: bool = True) -> Catalog:
        for catalog in opened:
            catalog.close()
        opened[:] = [Catalog(LimitsConfig(), None, tmp_path / "tables")]
        if check:
            opened[0].store.tidy()
            assert opened[0].store.file_check.wait(_SECONDS)
        return opened[0]

    yield another
    for catalog in opened:
        catalog.close()


def files(catalog: Catalog, table: str) -> list[str]:
    """Return the names of a table's data files."""
    return [file.name for name, file, _ in catalog.store.data_files() if name.name == table]


def states(catalog: Catalog) -> dict[str, set[str]]:
    """Return the states of each table's data files."""
    found: dict[str, set[str]] = {}
    for name, _, status in catalog.store.data_files():
        found.setdefault(name.name, set()).add(status)
    return found


def flip(path: Path) -> None:
    """Flip a bit of the first values of a file that has one column of numbers."""
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def damaged(start: Callable[..., Catalog], folder: Path) -> Path:
    """Make the tables `bad` and `good` and a view, flip a bit of `bad`, and return its file."""
    catalog = start()
    for name in ("bad", "good"):
        ingest(catalog, name, {"a": list(range(1_000)), "b": [0.5] * 1_000})
    run(catalog, "CREATE VIEW over AS SELECT a FROM bad")
    [name] = files(catalog, "bad")
    catalog.close()
    flip(folder / "tables" / "files" / name)
    return folder / "tables" / "files" / name


def test_digests_after_each_change(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """The list of tables has the SHA-256 of each file, whatever statement wrote it, also after a restart."""
    catalog = start()
    month = pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval())
    changes: tuple[Callable[[], object], ...] = (
        lambda: ingest(catalog, "t", {"a": list(range(200_000)), "s": [f"text {n}" for n in range(200_000)]}),
        lambda: ingest(catalog, "t", {"a": [1], "s": ["x"]}, "append"),
        lambda: ingest(catalog, "t", {"a": [2], "s": ["y"]}, "append"),
        lambda: ingest(catalog, "i", {"i": month}),
        lambda: run(catalog, "UPDATE t SET s = 'z' WHERE a = 2"),
        lambda: run(catalog, "DELETE FROM t WHERE a = 1"),
        lambda: run(catalog, "INSERT INTO t VALUES (3, 'w')"),
        lambda: ingest(catalog, "i", {"i": month}, "replace"),
        lambda: run(catalog, "CREATE VIEW v AS SELECT a FROM t"),
    )
    for change in changes:
        change()
        written = [file for _, file, _ in catalog.store.data_files()]
        assert written
        for file in written:
            assert sha256((tmp_path / "tables" / "files" / file.name).read_bytes()).hexdigest() == file.sha256
    assert {Path(file.name).suffix for file in written} == {".parquet", ".arrow"}
    assert [file for _, file, _ in start().store.data_files()] == written


def test_a_flipped_bit(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """After the check each statement on the table fails; others go on; the log and a table name the file."""
    path = damaged(start, tmp_path)
    with capture_logs() as log:
        catalog = start()
    assert [(line["table"], line["file"]) for line in log if line["log_level"] == "error"] == [("bad", path.name)]
    assert states(catalog) == {"bad": {"damaged"}, "good": {"ok"}}
    for attempt in (
        lambda: read(catalog, "SELECT a FROM bad"),
        lambda: read(catalog, "SELECT g.a FROM good AS g JOIN over AS o ON g.a = o.a"),
        lambda: run(catalog, "UPDATE bad SET a = 1"),
        lambda: run(catalog, "DELETE FROM bad WHERE a = 1"),
        lambda: ingest(catalog, "bad", {"a": [1], "b": [0.5]}, "append"),
    ):
        with pytest.raises(FlightLLMError, match=r"the table 'bad' is damaged: .* restore it from a backup"):
            attempt()
    assert read(catalog, "SELECT count(*) AS n FROM good") == [{"n": 1_000}]
    run(catalog, "DROP TABLE bad")
    assert states(start()) == {"good": {"ok"}}


def test_after_the_rows_were_read(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """Rows that were read before the check, also decoded in memory, are not read again after it."""
    damaged(start, tmp_path)
    catalog = start(check=False)
    for _ in range(3):
        assert len(read(catalog, "SELECT * FROM bad")) == 1_000
    catalog.store.tidy()
    assert catalog.store.file_check.wait(_SECONDS)
    with pytest.raises(FlightLLMError, match="is damaged"):
        read(catalog, "SELECT * FROM bad")


def test_the_next_start(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """A file that was found damaged stays refused before the next check; put back, it is read after the check."""
    path = damaged(start, tmp_path)
    start()
    catalog = start(check=False)
    assert states(catalog) == {"bad": {"damaged"}, "good": {"unchecked"}}
    with pytest.raises(FlightLLMError, match="is damaged"):
        read(catalog, "SELECT * FROM bad")
    flip(path)  # back again
    catalog = start()
    assert read(catalog, "SELECT count(*) AS n FROM bad") == [{"n": 1_000}]
    assert states(start(check=False)) == {"bad": {"unchecked"}, "good": {"unchecked"}}


@pytest.mark.parametrize(
    "change",
    ["UPDATE bad SET b = a", "DELETE FROM bad WHERE a = 999", "INSERT INTO bad VALUES (1, 0.5)"],
    ids=["update", "delete", "merge"],
)
def test_a_change_before_the_check(tmp_path: Path, start: Callable[..., Catalog], change: str) -> None:
    """A statement that rewrites a file compares it first, so that no new file takes over damaged rows."""
    path = damaged(start, tmp_path)
    catalog = start(check=False)
    with pytest.raises(FlightLLMError, match="is damaged"):
        run(catalog, change)
    assert files(catalog, "bad") == [path.name]


def test_merge_before_the_check(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """MERGE reads rows of several files at once, and compares those that it rewrites."""
    damaged(start, tmp_path)
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))) as database:
        session = database.session()
        with pytest.raises(FlightLLMError, match="is damaged"):
            session.update(
                "MERGE INTO bad USING (SELECT 999 AS a) AS s ON bad.a = s.a WHEN MATCHED THEN UPDATE SET b = 2"
            )
        shown = ask(session, "SELECT DISTINCT status FROM system.data_files WHERE \"table\" = 'bad'")
        assert shown.rows == [{"status": "damaged"}]


def test_a_change_before_the_table_is_marked(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """A statement does not rewrite a file that the check found damaged, although the table has no mark yet."""
    path = damaged(start, tmp_path)
    catalog = start(check=False)
    with catalog.store.lock:  # the check cannot mark the table
        catalog.store.tidy()
        await_true(lambda: states(catalog)["bad"] == {"damaged"})
        assert not any(entry.rows.damaged for entry in catalog.entries.values() if entry.rows is not None)
        with pytest.raises(FlightLLMError, match=r"the table 'bad' is damaged: .* restore it from a backup"):
            run(catalog, "UPDATE bad SET b = a")
    assert files(catalog, "bad") == [path.name]


@pytest.mark.parametrize("change", ["update", "merge", "upload"])
def test_a_cancelled_comparison(
    tmp_path: Path, start: Callable[..., Catalog], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A statement that is cancelled while it compares a file stops in the middle of the file, and changes nothing."""
    catalog = start()
    ingest(catalog, "t", {"a": [1], "b": [0.5]})
    catalog.close()
    stop, rows = CancelToken(), pa.record_batch({"a": [2], "b": [0.5]})
    merge = "MERGE INTO t USING (SELECT 1 AS a) AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 2"
    changes: dict[str, Callable[[Session], int]] = {
        "update": lambda session: session.update("UPDATE t SET b = 2", cancelled=stop),
        "merge": lambda session: session.update(merge, cancelled=stop),
        "upload": lambda session: session.ingest("t", [rows], rows.schema, "append", cancelled=stop),
    }

    def digest_of(path: Path, rest: Callable[[float], None]) -> str:
        stop.set()
        return digest.digest_of(path, rest)

    monkeypatch.setattr(file_check, "digest_of", digest_of)
    monkeypatch.setattr(FileCheck, "start", lambda _: None)
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))) as database:
        session = database.session()
        with pytest.raises(CancelledError):
            changes[change](session)
        assert states(database.catalog) == {"t": {"unchecked"}}
        assert ask(session, "SELECT * FROM t").rows == [{"a": 1, "b": 0.5}]


def test_an_error_for_one_file(start: Callable[..., Catalog]) -> None:
    """If the server cannot be told of a file, the check logs it and compares the other files."""
    catalog = start()
    for name in ("one", "two"):
        ingest(catalog, name, {"a": [1]})
    told = list[str]()

    def tell(file: str, _: FileStatus) -> None:
        told.append(file)
        if len(told) == 1:
            raise RuntimeError("the first call fails")

    check = FileCheck(catalog.store.folder, tell)
    check.add([file for _, file, _ in catalog.store.data_files()], ())
    with capture_logs() as log:
        check.start()
        assert check.wait(_SECONDS)
    check.close()
    assert sorted(told) == sorted(files(catalog, "one") + files(catalog, "two"))
    assert [line["file"] for line in log if line["log_level"] == "error"] == told[:1]


def test_a_disk_that_hangs(tmp_path: Path, start: Callable[..., Catalog], monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog closes although a file cannot be read to its end; the check then tells nothing more."""
    monkeypatch.setattr(file_check, "_LONGEST_END_SECONDS", 0.01)
    catalog = start()
    ingest(catalog, "t", {"a": [1]})
    catalog = start(check=False)
    [(_, file, _)] = catalog.store.data_files()
    path = tmp_path / "tables" / "files" / file.name
    path.unlink()
    os.mkfifo(path)  # its reader waits for a writer
    told = list[str]()
    check = FileCheck(catalog.store.folder, lambda name, _: told.append(name))
    check.add([file], ())
    with capture_logs() as log:
        check.start()
        check.close()
    assert [line["event"] for line in log] == ["the check of the data files does not end: the disk does not answer"]
    path.open("wb").close()  # the disk answers
    await_true(lambda: check._thread is not None and not check._thread.is_alive())
    assert (told, check.status(file)) == ([], "unchecked")


def test_files_without_a_digest(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """Files of earlier versions are read as before and not called `ok`, until a statement writes them anew."""
    catalog = start()
    ingest(catalog, "old", {"a": [1, 2]})
    catalog.close()
    without_digests(tmp_path / "tables" / "manifest.json")
    catalog = start()
    assert states(catalog) == {"old": {"no digest"}}
    ingest(catalog, "new", {"a": [1]})
    assert states(start()) == {"old": {"no digest"}, "new": {"ok"}}
    catalog = start()
    run(catalog, "UPDATE old SET a = a")
    assert states(start()) == {"old": {"ok"}, "new": {"ok"}}


def without_digests(path: Path) -> None:
    """Write a list of tables as earlier versions did."""

    def plain(value: Mapping[str, object]) -> Mapping[str, object]:
        return {key: one for key, one in value.items() if key not in {"sha256", "checksum"}}

    document = json.loads(path.read_text(), object_hook=plain)
    path.write_text(sealed(json.dumps(document)))


def test_backup_and_doctor(tmp_path: Path, start: Callable[..., Catalog]) -> None:
    """Both compare the files, and name the damaged one; the copy knows what the server found."""
    path = damaged(start, tmp_path)
    start().close()
    assert back_up(tmp_path, tmp_path.with_name("copy")) == [str(path)]
    with closing(Catalog(LimitsConfig(), None, tmp_path.with_name("copy") / "tables")) as copy:
        assert states(copy) == {"bad": {"damaged"}, "good": {"unchecked"}}
    doctor = ("doctor", "--engine", "fake", "--listen", "127.0.0.1:0", "--files")
    found = CliRunner(env={"FLIGHTLLM_HOME": str(tmp_path)}).invoke(main, doctor)
    assert found.exit_code == 1
    assert f"data files: damaged: {path} of the table public.bad" in found.output
    flip(path)
    found = CliRunner(env={"FLIGHTLLM_HOME": str(tmp_path)}).invoke(main, doctor)
    assert found.exit_code == 0
    assert "data files: 2 compared, 0.0 GiB in all" in found.output
    without_digests(tmp_path / "tables" / "manifest.json")
    found = CliRunner(env={"FLIGHTLLM_HOME": str(tmp_path)}).invoke(main, doctor)
    assert found.exit_code == 0
    assert "data files: 0 compared, 2 without a digest (only their sizes), 0.0 GiB in all" in found.output
