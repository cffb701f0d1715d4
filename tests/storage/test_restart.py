"""What clients make is there again in a later run, whatever statement made it."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.catalog import Catalog
from flightllm.catalog.manifest import CatalogManifest
from flightllm.config import LimitsConfig
from flightllm.errors import CancelledError, ConfigError, FlightLLMError, InvalidInputError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from tests.catalogs import ROWS, ingest, read, run, write
from tests.databases import open_database, rows

Reopen = Callable[[], Catalog]


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Reopen]:
    """Return a function that closes the catalog of this test and opens it anew."""
    opened: list[Catalog] = []

    def another() -> Catalog:
        for catalog in opened:
            catalog.close()
        opened[:] = [Catalog(LimitsConfig(), None, tmp_path / "tables")]
        return opened[0]

    yield another
    opened[0].close()


STATEMENTS: dict[str, tuple[str, ...]] = {
    "create": ("CREATE TABLE n (a INT NOT NULL DEFAULT 7, s VARCHAR)",),
    "or replace": ("CREATE OR REPLACE TABLE t (z DOUBLE)",),
    "insert": ("INSERT INTO t VALUES (4, 'd')", "INSERT INTO t (s) VALUES ('e')"),
    "update": ("UPDATE t SET s = 'changed' WHERE id > 1",),
    "delete": ("DELETE FROM t WHERE id = 2",),
    "delete all": ("DELETE FROM t",),
    "drop": ("DROP TABLE t",),
    "schema": ("CREATE SCHEMA extra", "CREATE TABLE extra.u (a INT)", "INSERT INTO extra.u VALUES (1)"),
    "drop schema": ("CREATE SCHEMA extra", "DROP SCHEMA extra"),
    "view": ("CREATE VIEW v (b) AS SELECT id FROM t", "CREATE VIEW w AS SELECT sum(b) AS total FROM v"),
    "view of a later view": (
        "CREATE VIEW v AS SELECT 1 AS b",
        "CREATE VIEW w AS SELECT b FROM v",
        "CREATE OR REPLACE VIEW v AS SELECT max(id) AS b FROM t",
    ),
    "drop view": ("CREATE VIEW v AS SELECT id FROM t", "DROP VIEW v"),
}


@pytest.mark.parametrize("statements", STATEMENTS.values(), ids=STATEMENTS)
def test_statements(reopen: Reopen, statements: tuple[str, ...]) -> None:
    """Schemas, tables, views, rows and revisions are the same in the run after a statement."""
    catalog = reopen()
    ingest(catalog, "t", {"id": [1, 2, 3], "s": ["a", "b", None]})
    untouched = content(catalog)
    run(catalog, *statements)
    before = content(catalog)
    assert before != untouched or statements[-1].startswith("DROP")
    assert content(reopen()) == before


def test_defaults_and_owners(reopen: Reopen) -> None:
    """Columns keep their defaults and may still not be NULL; a table and a view keep their owner."""
    catalog = reopen()
    run(catalog, "CREATE TABLE n (a INT NOT NULL DEFAULT 7, s VARCHAR)")
    batch = pa.record_batch({"a": [1]})
    catalog.owner = "ann"
    catalog.ingest("owned", batch.schema, [batch])
    catalog = reopen()
    assert run(catalog, "INSERT INTO n (s) VALUES ('x')") == 1
    assert read(catalog, "SELECT * FROM n") == [{"a": 7, "s": "x"}]
    with pytest.raises(InvalidInputError, match="non-nullable"):
        run(catalog, "INSERT INTO n VALUES (NULL, 'x')")
    owners = {name.name: entry.owner for name, entry in catalog.store.entries.items()}
    assert owners == {"n": "local", "owned": "ann"}


def test_ingest_modes(reopen: Reopen) -> None:
    """Rows of every mode of ingestion are there, in order."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [3, 1]})
    ingest(catalog, "t", {"a": [2]}, "append")
    ingest(catalog, "u", {"a": [1]}, "create_append")
    ingest(catalog, "u", {"b": [2]}, "replace")
    catalog = reopen()
    assert read(catalog, "SELECT * FROM t") == [{"a": 3}, {"a": 1}, {"a": 2}]
    assert read(catalog, "SELECT * FROM u") == [{"b": 2}]


@pytest.mark.slow
def test_hundreds_of_inserts(reopen: Reopen) -> None:
    """They end in few files, in order, and leave none behind that is not the table's."""
    catalog = reopen()
    run(catalog, "CREATE TABLE t (a BIGINT)")
    schema = pa.schema([("a", pa.int64())])
    for number in range(300):
        catalog.ingest("t", schema, [pa.record_batch([[number]], schema=schema)], "append")
    assert read(catalog, "SELECT * FROM t") == [{"a": number} for number in range(300)]
    assert len(files(catalog)) == 1
    assert read(reopen(), "SELECT count(*) AS n, sum(a) AS s FROM t") == [{"n": 300, "s": 44_850}]


def test_large_appends_are_merged_in_order(reopen: Reopen) -> None:
    """Files too large to be rewritten each time are gathered by the dozen; rows keep their order."""
    catalog = reopen()
    add_noise(catalog, 40)
    assert 2 <= len(files(catalog)) <= 16
    frame = catalog.context(parallel=False).sql("SELECT a FROM t")
    assert frame.to_arrow_table().column("a").to_pylist() == [n for n in range(40) for _ in range(100)]


def test_views_with_ai_calls(tmp_path: Path) -> None:
    """A view with AI calls, and one that reads it, answer in a later run."""
    first = open_database(tmp_path)
    for sql in (
        "CREATE TABLE t AS SELECT 'x' AS a",
        "CREATE VIEW v AS SELECT a, ai_gen('say', a) AS said FROM t",
        "CREATE VIEW w AS SELECT length(said) AS n FROM v",
    ):
        first.session().update(sql)
    before = rows(first.session(), "SELECT said, n FROM v, w")
    first.close()
    second = open_database(tmp_path)
    assert rows(second.session(), "SELECT said, n FROM v, w") == before
    assert {info.type for info in second.catalog.tables() if info.name.name in "vw"} == {"VIEW"}
    second.close()


def test_one_server_per_folder(tmp_path: Path) -> None:
    """A second server is refused and told why; once the first is closed it may open the folder."""
    first = open_database(tmp_path)
    with pytest.raises(ConfigError, match=r"another process uses the folder .*data_folder"):
        open_database(tmp_path)
    first.close()
    open_database(tmp_path).close()


def test_nothing_is_written_after_the_end(reopen: Reopen) -> None:
    """A statement that outlasts its server's end changes nothing: the folder may be another server's by then."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [1]})
    batch = pa.record_batch({"a": [2]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        catalog.close()

    with pytest.raises(CancelledError, match="the server is stopping"):
        catalog.ingest("t", batch.schema, batches(), "append")
    again = reopen()
    assert read(again, "SELECT a FROM t") == [{"a": 1}]
    assert len(files(again)) == 1


def test_a_file_of_the_same_name(tmp_path: Path) -> None:
    """A table of the configuration does not hide one that clients made: the server says so and does not start."""
    first = open_database(tmp_path)
    first.session().update("CREATE TABLE t AS SELECT 1 AS a")
    first.close()
    path = write(tmp_path / "t.parquet", ROWS)
    with pytest.raises(ConfigError, match=rf"table 't': clients created a base table 't' .*{path}"):
        open_database(tmp_path, tables={"t": path})
    opened = open_database(tmp_path)
    assert rows(opened.session(), "SELECT a FROM t") == [{"a": 1}]
    opened.close()


def test_unfinished_files_are_removed(tmp_path: Path, reopen: Reopen) -> None:
    """What only an unfinished statement can have written is gone after the next start; files of tables stay."""
    ingest(reopen(), "t", {"a": [1]})
    (tmp_path / "tables" / "files" / f".unfinished-{'0' * 32}.parquet").write_bytes(b"half")
    (tmp_path / "tables" / f".manifest.json-{'0' * 32}").write_bytes(b"{")
    catalog = reopen()
    catalog.store.tidy()
    assert len(files(catalog)) == 1
    assert not list((tmp_path / "tables").glob(".manifest*"))
    assert not (tmp_path / "tables" / "set-aside").exists()
    assert len(links(catalog)) == 1
    assert read(catalog, "SELECT a FROM t") == [{"a": 1}]


def test_what_no_table_has_is_moved_aside(tmp_path: Path, reopen: Reopen) -> None:
    """Files of strangers and files that a lost list can have named are never removed, also on later starts."""
    tables = tmp_path / "tables"
    ingest(reopen(), "t", {"a": [1]})
    strange = {
        f"files/{'0' * 32}.parquet": b"of a lost list",
        "files/notes.txt": b"mine",
        "files/.unfinished-mine": b"mine",
        "files/folder/deep.parquet": b"mine",
        "reading/notes.txt": b"mine",
        f"reading/{'0' * 32}/000000.parquet": None,
        f"reading/{'1' * 32}/mine.txt": b"mine",
    }
    for name, content in strange.items():
        (tables / name).parent.mkdir(exist_ok=True)
        (tables / name).write_bytes(content or b"a link of an ended reader")
    del strange[f"reading/{'0' * 32}/000000.parquet"]  # a copy of rows that are replaced: the list is whole
    for number in (1, 2):
        catalog = reopen()
        assert all((tables / name).exists() for name in strange) == (number == 1)
        catalog.store.tidy()
        assert {name: (tables / "set-aside" / "1" / name).read_bytes() for name in strange} == strange
        assert [one.name for one in (tables / "set-aside").iterdir()] == ["1"]
        assert len(files(catalog)) == len(links(catalog)) == 1


def test_an_earlier_list_removes_nothing(tmp_path: Path, reopen: Reopen) -> None:
    """A list from a backup names fewer files: the others are moved aside, and come back with their own list."""
    tables = tmp_path / "tables"
    ingest(reopen(), "t", {"a": [1]})
    older = (tables / "manifest.json").read_bytes()
    catalog = reopen()
    for name in ("u", "v"):
        ingest(catalog, name, {"a": [2]})
    newer = (tables / "manifest.json").read_bytes()
    catalog.close()
    (tables / "manifest.json").write_bytes(older)
    (tables / "manifest.json.previous").unlink()
    catalog = reopen()
    catalog.store.tidy()
    assert [info.name.name for info in catalog.tables()] == ["t"]
    catalog.close()
    for path in (tables / "set-aside" / "1" / "files").iterdir():
        path.rename(tables / "files" / path.name)
    (tables / "manifest.json").write_bytes(newer)
    catalog = reopen()
    catalog.store.tidy()
    assert read(catalog, "SELECT t.a AS a, u.a AS b, v.a AS c FROM t, u, v") == [{"a": 1, "b": 2, "c": 2}]


@pytest.mark.parametrize("left", ["all", "no previous list", "files"])
def test_a_missing_list(tmp_path: Path, reopen: Reopen, left: str) -> None:
    """The server does not start, says what is there and what to do, and changes nothing."""
    catalog, tables = reopen(), tmp_path / "tables"
    ingest(catalog, "t", {"a": [1]})
    catalog.close()
    (tables / "manifest.json").rename(tmp_path / "away")
    if left != "all":
        (tables / "manifest.json.previous").unlink()
    before = sorted(tables.rglob("*"))
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"manifest\.json is missing, but .*Restore the data folder from a backup"
        ):
            Catalog(LimitsConfig(), None, tables)
        assert sorted(tables.rglob("*")) == before
    (tmp_path / "away").rename(tables / "manifest.json")
    catalog = reopen()
    catalog.store.tidy()
    assert read(catalog, "SELECT a FROM t") == [{"a": 1}]


def test_views_alone_are_missed(tmp_path: Path, reopen: Reopen) -> None:
    """A folder with one view has no data file. Its missing list is noticed all the same."""
    catalog = reopen()
    run(catalog, "CREATE VIEW v AS SELECT 1 AS a")
    catalog.close()
    (tmp_path / "tables" / "manifest.json").unlink()
    with pytest.raises(ConfigError, match=r"is missing, but manifest\.json\.previous is there"):
        Catalog(LimitsConfig(), None, tmp_path / "tables")
    (tmp_path / "tables" / "manifest.json.previous").rename(tmp_path / "tables" / "manifest.json")
    reopen()


@pytest.mark.parametrize("former", [False, True], ids=["with checksum", "of an earlier version"])
def test_changed_bytes_of_the_list(tmp_path: Path, reopen: Reopen, former: bool) -> None:
    """Any flipped bit and any cut is found. Without a checksum, whatever is found is told without a traceback."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [1], "s": ["x"]})
    catalog.close()
    path = tmp_path / "tables" / "manifest.json"
    text = path.read_bytes()
    if former:
        document = json.loads(text)
        text = json.dumps({key: document[key] for key in ("version", "revision", "schemas", "entries")}).encode()
        assert CatalogManifest.of_json(text.decode()).entries
    for place in range(len(text)):
        for harmed in (text[:place] + bytes([text[place] ^ 1 << place % 8]) + text[place + 1 :], text[:place]):
            try:
                CatalogManifest.of_json(harmed.decode())
            except (InvalidInputError, UnicodeDecodeError):
                continue
            assert former


@pytest.mark.parametrize("harm", ["missing", "cut short", "other bytes"])
def test_a_damaged_file(tmp_path: Path, reopen: Reopen, harm: str) -> None:
    """Its table cannot be read or changed, is named, and can be dropped; others go on; no path is told."""
    catalog = reopen()
    ingest(catalog, "bad", {"a": list(range(1_000))})
    [path] = (tmp_path / "tables" / "files").iterdir()
    ingest(catalog, "good", {"a": [2]})
    run(catalog, "CREATE VIEW over AS SELECT a FROM bad")
    catalog.close()
    match harm:
        case "missing":
            path.unlink()
        case "cut short":
            path.write_bytes(path.read_bytes()[:100])
        case _:
            path.write_bytes(b"x" * path.stat().st_size)
    catalog = reopen()
    assert read(catalog, "SELECT a FROM good") == [{"a": 2}]
    assert "bad" in [info.name.name for info in catalog.tables()]
    listed = "SELECT table_name AS n FROM information_schema.tables WHERE table_schema = 'public'"
    assert {"n": "good"} in read(catalog, listed)
    with pytest.raises(FlightLLMError):
        read(catalog, "SELECT * FROM over")
    for attempt in (
        lambda: read(catalog, "SELECT a FROM bad"),
        lambda: run(catalog, "UPDATE bad SET a = 1"),
        lambda: run(catalog, "INSERT INTO bad VALUES (1)"),
    ):
        with pytest.raises(FlightLLMError, match="damaged") as raised:
            attempt()
        assert str(tmp_path) not in str(raised.value)
        assert path.name not in str(raised.value)
        assert harm == "other bytes" or "the table 'bad'" in str(raised.value)
    run(catalog, "DROP TABLE bad")
    assert read(reopen(), "SELECT a FROM good") == [{"a": 2}]


@pytest.mark.parametrize("text", ["", "{", "{}", '{"version": 99}', "[]", "\x00\x00"])
def test_a_damaged_manifest(tmp_path: Path, reopen: Reopen, text: str) -> None:
    """The server does not start without its tables, and says what to do; the former state is at hand."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [1]})
    ingest(catalog, "u", {"a": [1]})
    catalog.close()
    manifest = tmp_path / "tables" / "manifest.json"
    manifest.write_text(text)
    with pytest.raises(ConfigError, match=r"manifest\.json is damaged: .*manifest\.json\.previous"):
        Catalog(LimitsConfig(), None, tmp_path / "tables")
    manifest.with_name("manifest.json.previous").replace(manifest)
    assert [info.name.name for info in reopen().tables()] == ["t"]


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t VALUES (9)",
        "UPDATE t SET a = 7",
        "DELETE FROM t WHERE a = 1",
        "CREATE OR REPLACE TABLE t (b INT)",
        "DROP TABLE t",
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_the_state_before_the_last_change(tmp_path: Path, reopen: Reopen, change: str, restarted: bool) -> None:
    """The former manifest finds all its rows, whatever changed them last, after another start too."""
    catalog = reopen()
    ingest(catalog, "u", {"a": [5]})
    ingest(catalog, "t", {"a": [1, 2]})
    run(catalog, change)
    if restarted:
        catalog = reopen()
    catalog.close()
    manifest = tmp_path / "tables" / "manifest.json"
    manifest.write_text("{")
    manifest.with_name("manifest.json.previous").replace(manifest)
    catalog = reopen()
    assert read(catalog, "SELECT a FROM t") == [{"a": 1}, {"a": 2}]
    assert read(catalog, "SELECT a FROM u") == [{"a": 5}]
    run(catalog, "INSERT INTO t VALUES (3)", "DELETE FROM u")
    assert read(reopen(), "SELECT count(*) AS n FROM t") == [{"n": 3}]


def test_files_of_older_states_go(reopen: Reopen) -> None:
    """The files of a change are kept until the next one, and no longer."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [1, 2]})
    for _ in range(5):
        run(catalog, "UPDATE t SET a = a + 1")
        assert len(list(catalog._folder.file("x").parent.iterdir())) == 2
    assert len(files(catalog)) == 1


def test_queries_read_on(reopen: Reopen) -> None:
    """A query planned before a change, a replacement or a drop returns the rows of then; the files go once it ended."""
    catalog = reopen()
    for number, change in enumerate(
        ("INSERT INTO t VALUES (9)", "DELETE FROM t WHERE a = 1", "CREATE OR REPLACE TABLE t (b INT)", "DROP TABLE t")
    ):
        ingest(catalog, "t", {"a": [1, 2]}, "replace")
        reader = catalog.reading()
        frame = catalog.context().sql("SELECT a FROM t")
        run(catalog, change)
        assert len(links(catalog)) == (2 if number < 2 else 1)
        assert frame.to_pydict() == {"a": [1, 2]}
        reader.close()
        assert len(links(catalog)) == (1 if number < 2 else 0)


def test_results_hold_their_tables(tmp_path: Path) -> None:
    """A result whose rows are not yet fetched keeps them, until it is closed or forgotten."""
    opened = open_database(tmp_path)
    session = opened.session()
    for end in ("read", "closed", "forgotten"):
        session.update("CREATE OR REPLACE TABLE t AS SELECT value AS a FROM generate_series(1, 10) AS s(value)")
        result = session.execute("SELECT sum(a) AS s FROM t")
        session.update("DROP TABLE t")
        assert len(links(opened.catalog)) == 1
        if end == "read":
            assert [batch.to_pylist() for batch in result.batches] == [[{"s": 55}]]
        elif end == "closed":
            result.batches.close()
        del result
        assert links(opened.catalog) == []
    opened.close()


def test_replaced_while_rows_are_added(reopen: Reopen) -> None:
    """Rows for a table that is dropped or made anew before they are complete are refused, not put elsewhere."""
    catalog = reopen()
    for change in ("DROP TABLE t", "CREATE OR REPLACE TABLE t (a BIGINT)"):
        ingest(catalog, "t", {"a": [1]}, "replace")
        batch = pa.record_batch({"a": [2]})

        def batches(change: str = change, batch: pa.RecordBatch = batch) -> Iterator[pa.RecordBatch]:
            yield batch
            run(catalog, change)

        with pytest.raises(InvalidInputError, match="dropped or replaced"):
            catalog.ingest("t", batch.schema, batches(), "append")
    assert read(catalog, "SELECT * FROM t") == []
    assert files(catalog) == []


def test_only_files_with_rows_to_change_are_rewritten(reopen: Reopen) -> None:
    """UPDATE and DELETE leave alone the files in which their condition holds for no row."""
    catalog = reopen()
    add_noise(catalog, 3)
    before = files(catalog)
    assert len(before) == 3
    assert run(catalog, "UPDATE t SET a = 7 WHERE a = 1") == 100
    assert len(set(files(catalog)) & set(before)) == 2
    assert read(catalog, "SELECT DISTINCT a FROM t ORDER BY a") == [{"a": 0}, {"a": 2}, {"a": 7}]
    assert run(catalog, "DELETE FROM t WHERE a = 7") == 100
    assert set(files(catalog)) == {before[0], before[2]}


def test_order_is_kept(reopen: Reopen) -> None:
    """Many rows keep their order when they are cast on their way in, changed and merged."""
    catalog, count = reopen(), 200_000
    run(catalog, "CREATE TABLE t (s VARCHAR DEFAULT 'x', a BIGINT)")
    numbers = pa.table({"n": pa.array(range(count), pa.int32())})
    added = catalog.insert(
        classify(ParsedText("INSERT INTO t (a) SELECT 1")), numbers.schema, numbers.to_batches(10_000)
    )
    assert added == count
    assert run(catalog, "UPDATE t SET a = a + 1 WHERE a % 2 = 0") == count // 2
    table = catalog.context(parallel=False).sql("SELECT a FROM t").to_arrow_table()
    assert table.column("a").to_pylist() == [n + 1 - n % 2 for n in range(count)]


def test_not_null_holds_for_updates(reopen: Reopen) -> None:
    """An UPDATE that would make a NULL where none may be fails and changes nothing."""
    catalog = reopen()
    run(catalog, "CREATE TABLE t (a INT NOT NULL)", "INSERT INTO t VALUES (1), (2)")
    with pytest.raises(FlightLLMError, match="null"):
        run(catalog, "UPDATE t SET a = NULL WHERE a = 2")
    assert read(catalog, "SELECT * FROM t") == [{"a": 1}, {"a": 2}]


def add_noise(catalog: Catalog, times: int) -> None:
    """Add 100 rows of one number, too large for a file that is rewritten each time, so many times."""
    noise, schema = random.Random(1), pa.schema([("a", pa.int64()), ("noise", pa.binary())])  # noqa: S311
    for number in range(times):
        batch = pa.record_batch([[number] * 100, [noise.randbytes(1_000) for _ in range(100)]], schema=schema)
        catalog.ingest("t", schema, [batch], "create_append")


def content(catalog: Catalog) -> dict[str, Any]:
    """Return all that clients can see of a catalog."""
    tables = {info.name: info for info in catalog.tables()}
    return {
        "schemas": catalog.schemas(),
        "tables": {name: (info.type, info.schema) for name, info in tables.items()},
        "rows": {name: read(catalog, f"SELECT * FROM {name.sql}") for name in tables},
        "revisions": {name: catalog.revision(name) for name in tables},
    }


def files(catalog: Catalog) -> list[str]:
    """Return the names of the data files of all tables, in order; only those of the state before may be there too."""
    names = [f.name for e in catalog.store.entries.values() if e.rows is not None for f in e.rows.files]
    folder = catalog._folder.file("x").parent
    previous = folder.with_name("manifest.json.previous")
    former = CatalogManifest.of_json(previous.read_text()).files if previous.exists() else set()
    assert {path.name for path in folder.iterdir()} == {*names, *former}
    return names


def links(catalog: Catalog) -> list[str]:
    """Return the folders through which tables are read."""
    return [path.name for path in (catalog._folder.file("x").parent.parent / "reading").iterdir()]
