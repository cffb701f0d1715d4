"""Copies of a data folder: complete, consistent while the server writes, and a data folder themselves."""

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flightllm.access.store import User
from flightllm.cli import main
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import FlightLLMError, InvalidInputError
from flightllm.kvcache.store.disk import DiskStore
from flightllm.session.database import Database
from flightllm.storage.backup import back_up
from tests.databases import ask, rows

_NOBODY = 65_534


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database in the folder `data`."""
    opened = opened_in(tmp_path / "data")
    yield opened
    opened.close()


def opened_in(folder: Path) -> Database:
    """Open a database that has embeddings without a model."""
    return Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))


def test_kv_caches_stay(tmp_path: Path, database: Database) -> None:
    """They are large, change all the time, and engines can compute them again."""
    del database
    with DiskStore(tmp_path / "data" / "kvstore", 1000) as store:
        store.put("0" * 40, "raw", b"x")
        assert back_up(tmp_path / "data", tmp_path / "copy") == []
    assert not (tmp_path / "copy" / "kvstore").exists()
    assert (tmp_path / "copy" / "answers.sqlite").exists()


def test_everything_is_there(tmp_path: Path, database: Database) -> None:
    """Tables, views, answers, users, indexes and further files of a running server are in the copy."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    session = database.session()
    for sql in (
        "CREATE TABLE t AS SELECT value AS n, concat('text ', value) AS s FROM generate_series(1, 50) AS g(value)",
        "CREATE VIEW v AS SELECT count(*) AS c FROM t",
        "CREATE TABLE gone AS SELECT 1 AS a",
        "DROP TABLE gone",
        "CREATE VECTOR INDEX i ON t(s)",
    ):
        session.update(sql)
    asked = ask(session, "SELECT ai_gen('x', n) AS a FROM t")
    database.access.store.add_user(User("ann", "user"))
    session.update("CREATE PROMPT p AS 'Is it?'")
    (tmp_path / "data" / ".objects.json-unfinished").write_text("{")
    (tmp_path / "data" / "other").mkdir()
    (tmp_path / "data" / "other" / "notes.json").write_text("{}")
    assert back_up(tmp_path / "data", tmp_path / "copies" / "copy") == []
    session.update("DROP TABLE t")
    copy = opened_in(tmp_path / "copies" / "copy")
    restored = copy.session()
    assert rows(restored, "SELECT c FROM v") == [{"c": 50}]
    again = ask(restored, "SELECT ai_gen('x', n) AS a FROM t")
    assert (again.calls, again.rows) == (0, asked.rows)
    assert rows(restored, "SHOW VECTOR INDEXES")[0]["status"] == "ready"
    assert rows(restored, "SELECT vector_search('i', 'text 7', top_k => 1)[1]['n'] AS n") == [{"n": 7}]
    assert copy.access.store.user("ann").role == "user"
    assert rows(restored, "SELECT text FROM system.prompts") == [{"text": "Is it?"}]
    assert not list((tmp_path / "copies" / "copy").glob(".objects*"))
    assert (tmp_path / "copies" / "copy" / "other" / "notes.json").read_text() == "{}"
    assert len(list((tmp_path / "copies" / "copy" / "tables" / "files").iterdir())) == 1
    copy.close()


def test_while_tables_change(tmp_path: Path, database: Database) -> None:
    """Every copy has two tables as they were at one moment, though they are changed all the time."""
    session = database.session()
    session.update("CREATE TABLE a AS SELECT 0 AS n")
    session.update("CREATE TABLE b AS SELECT 0 AS n")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for table in ("a", "b"):  # a is ahead of b by one, or level
                database.session().update(f"INSERT INTO {table} VALUES ({number})")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            assert back_up(tmp_path / "data", tmp_path / f"copy{number}") == []
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        copy = opened_in(tmp_path / f"copy{number}")
        [found] = rows(
            copy.session(),
            "SELECT a.m AS a, b.m AS b, a.c AS ca, b.c AS cb FROM (SELECT max(n) AS m, count(*) AS c FROM a) a,"
            " (SELECT max(n) AS m, count(*) AS c FROM b) b",
        )
        assert found["a"] - found["b"] in {0, 1}
        assert (found["ca"], found["cb"]) == (found["a"] + 1, found["b"] + 1)
        copy.close()


def test_the_command(tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the folder from the configuration, says what it did, and never writes over anything."""
    database.session().update("CREATE TABLE t AS SELECT 1 AS a")
    config = tmp_path / "my.toml"
    config.write_text('data_folder = "data"\n')
    ran = CliRunner().invoke(main, ["backup", "--config", str(config), str(tmp_path / "copy")])
    assert (ran.exit_code, ran.output) == (0, f"copied {tmp_path / 'data'} to {tmp_path / 'copy'}\n")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "data"))
    for target, message in ((tmp_path / "copy", "exists"), (tmp_path / "data" / "copy", "is inside the data folder")):
        ran = CliRunner().invoke(main, ["backup", str(target)])
        assert ran.exit_code == 1
        assert message in ran.output
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "none"))
    assert "there is no data folder" in CliRunner().invoke(main, ["backup", str(tmp_path / "new")]).output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data", "my.toml"]


def test_damage_is_told(tmp_path: Path, database: Database) -> None:
    """A missing or short file is named and the rest copied, also without answers; a damaged list leaves no copy."""
    for name in ("a", "b", "c"):
        database.session().update(f"CREATE TABLE {name} AS SELECT '{name}' AS n")
    database.close()
    files = tmp_path / "data" / "tables" / "files"
    missing, short, _ = files.iterdir()
    missing.unlink()
    short.write_bytes(b"PAR1")
    assert sorted(back_up(tmp_path / "data", tmp_path / "copy")) == sorted([str(missing), str(short)])
    copy = opened_in(tmp_path / "copy")
    assert len(copy.catalog.tables()) >= 3
    copy.close()
    with closing(sqlite3.connect(tmp_path / "data" / "answers.sqlite")) as answers:
        answers.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (tmp_path / "data" / "answers.sqlite").write_bytes(b"no database" * 1_000)
    assert str(tmp_path / "data" / "answers.sqlite") in back_up(tmp_path / "data", tmp_path / "without")
    assert not (tmp_path / "without" / "answers.sqlite").exists()
    assert len(list((tmp_path / "without" / "tables" / "files").iterdir())) == 2
    (tmp_path / "data" / "answers.sqlite").rename(tmp_path / "data" / "mine.sqlite")
    with pytest.raises(InvalidInputError, match=r"mine\.sqlite cannot be read: .* move it away"):
        back_up(tmp_path / "data", tmp_path / "other")
    (tmp_path / "data" / "mine.sqlite").unlink()
    (tmp_path / "data" / "tables" / "manifest.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"manifest\.json is damaged"):
        back_up(tmp_path / "data", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data", "without"]


def _indexed(database: Database, folder: Path) -> Path:
    """Make two tables and an index; return the folder of the index."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    session = database.session()
    session.update("CREATE TABLE t AS SELECT value AS n, concat('text ', value) AS s FROM generate_series(1, 50) AS g")
    session.update("CREATE VECTOR INDEX i ON t(s)")
    database.close()
    [index] = (folder / "vectors").glob("index-*/manifest.json")
    return index.parent


def _doctor(folder: Path) -> Result:
    """Run `flightllm doctor --files`."""
    arguments = ("doctor", "--engine", "fake", "--listen", "127.0.0.1:0", "--files")
    return CliRunner(env={"FLIGHTLLM_HOME": str(folder)}).invoke(main, arguments)


def test_a_flipped_bit_of_an_index(tmp_path: Path, database: Database) -> None:
    """Backup and doctor name the file, as the server does; the copy has the index as it is."""
    index = _indexed(database, tmp_path / "data")
    assert _doctor(tmp_path / "data").exit_code == 0
    [path] = index.rglob("vectors.faiss")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert back_up(tmp_path / "data", tmp_path / "copy") == [str(path)]
    assert (tmp_path / "copy" / path.relative_to(tmp_path / "data")).read_bytes() == content
    found = _doctor(tmp_path / "data")
    assert found.exit_code == 1
    assert f"vector index: damaged: {index}: its file vectors.faiss is missing or damaged" in found.output


@pytest.mark.parametrize(
    "text", [b'{"a":' * 100_000, b"\xff\xfe", b"", None], ids=["nested", "not UTF-8", "empty", "flipped"]
)
def test_a_damaged_manifest_of_an_index(tmp_path: Path, database: Database, text: bytes | None) -> None:
    """Doctor and backup name it, the other files are copied, and a server starts with both folders."""
    index = _indexed(database, tmp_path / "data")
    manifest = index / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows": 50', b'"rows": 51') if text is None else text)
    assert back_up(tmp_path / "data", tmp_path / "copy") == [str(manifest)]
    copied = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy" / "vectors").rglob("*")}
    assert {path.relative_to(tmp_path / "data") for path in index.rglob("*") if path.suffix != ".lock"} <= copied
    found = _doctor(tmp_path / "data")
    assert found.exit_code == 1
    assert f"vector index: damaged: {index}: its manifest cannot be read" in found.output
    for folder in ("data", "copy"):
        opened = opened_in(tmp_path / folder)
        assert "damaged" in rows(opened.session(), "SHOW VECTOR INDEXES")[0]["status"]
        assert rows(opened.session(), "SELECT count(*) AS n FROM t") == [{"n": 50}]
        opened.close()


@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_no_file_in_its_place(tmp_path: Path, database: Database, kind: str) -> None:
    """Only the table of the file is damaged, for the server, its check, doctor and backup."""
    for name in ("bad", "good"):
        database.session().update(f"CREATE TABLE {name} AS SELECT '{name}' AS n")
    [name] = [file.name for table, file, _ in database.catalog.store.data_files() if table.name == "bad"]
    database.close()
    path = tmp_path / "data" / "tables" / "files" / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name)
    assert back_up(tmp_path / "data", tmp_path / "copy") == [str(path)]
    assert f"damaged: {path} of the table public.bad" in _doctor(tmp_path / "data").output
    for folder in ("data", "copy"):
        opened = opened_in(tmp_path / folder)
        opened.tidy()
        assert opened.catalog.store.file_check.wait(60)
        states = {table.name: status for table, _, status in opened.catalog.store.data_files()}
        assert states == {"bad": "missing", "good": "ok"}
        assert rows(opened.session(), "SELECT n FROM good") == [{"n": "good"}]
        with pytest.raises(FlightLLMError, match="'bad' is damaged"):
            rows(opened.session(), "SELECT n FROM bad")
        opened.session().update("DROP TABLE bad")
        opened.close()


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that all users can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Run the block as another user than root, who has no rights of root."""
    os.setegid(_NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_files_of_another_user(public: Path) -> None:
    """A data file that the server cannot read damages its table; a folder it cannot write is copied as it is."""
    data = public / "data"
    database = opened_in(data)
    for name in ("bad", "good"):
        database.session().update(f"CREATE TABLE {name} AS SELECT '{name}' AS n")
    [name] = [file.name for table, file, _ in database.catalog.store.data_files() if table.name == "bad"]
    database.access.store.add_user(User("ann", "user"))
    database.close()
    shutil.rmtree(data / "tables" / "reading")
    paths = [data, *data.rglob("*")]
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
    bad = data / "tables" / "files" / name
    bad.chmod(0o600)
    (public / "copies").mkdir()
    os.chown(public / "copies", _NOBODY, _NOBODY)
    before = {path: path.stat().st_mtime_ns for path in paths}
    with _as_nobody():
        assert back_up(data, public / "copies" / "one") == [str(bad)]
    assert {path: path.stat().st_mtime_ns for path in [data, *data.rglob("*")]} == before
    opened_in(public / "copies" / "one").close()
    (data / "answers.sqlite").chmod(0o600)
    with (
        _as_nobody(),
        pytest.raises(InvalidInputError, match=r"answers\.sqlite cannot .* as the server's user"),
    ):
        back_up(data, public / "copies" / "two")
    for path in paths:
        os.chown(path, _NOBODY, _NOBODY)
    os.chown(bad, 0, 0)
    with _as_nobody(), closing(opened_in(data)) as opened:
        assert rows(opened.session(), "SELECT n FROM good") == [{"n": "good"}]
        with pytest.raises(FlightLLMError, match=r"'bad' is damaged: .* cannot use it"):
            rows(opened.session(), "SELECT n FROM bad")


def test_what_was_set_aside(tmp_path: Path, database: Database) -> None:
    """Files that the server moved aside, and folders that it does not know, are in the copy; locks are not."""
    database.session().update("CREATE TABLE t AS SELECT 1 AS a")
    names = (
        "vectors/set-aside/index-i-1/rows.arrow", "vectors/index-lost/1-1/rows.arrow", "vectors/notes.txt",
        "tables/set-aside/1/files/a.parquet", "tables/notes.txt", "answers.sqlite.damaged-1", "mine/.hidden",
    )  # fmt: skip
    for name in (*names, "vectors/index-i.lock"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    assert back_up(tmp_path / "data", tmp_path / "copy") == []
    assert [name for name in names if (tmp_path / "copy" / name).read_text() != name] == []
    assert not list((tmp_path / "copy").rglob("*.lock"))
    assert not (tmp_path / "copy" / "tables" / "reading").exists()
    copy = opened_in(tmp_path / "copy")
    assert rows(copy.session(), "SELECT a FROM t") == [{"a": 1}]
    copy.close()
