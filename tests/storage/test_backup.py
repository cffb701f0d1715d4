"""Copies of a data folder: complete, consistent while the server writes, and a data folder themselves."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.access.store import User
from flightllm.cli import main
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import InvalidInputError
from flightllm.kvcache.store.disk import DiskStore
from flightllm.session.database import Database
from flightllm.storage.backup import back_up
from tests.databases import ask, rows


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
    """A missing or short file is named and the rest copied; a damaged database or manifest leaves no copy."""
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
    with pytest.raises(InvalidInputError, match=r"answers\.sqlite cannot be read"):
        back_up(tmp_path / "data", tmp_path / "other")
    (tmp_path / "data" / "answers.sqlite").unlink()
    (tmp_path / "data" / "tables" / "manifest.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"manifest\.json is damaged"):
        back_up(tmp_path / "data", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


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
