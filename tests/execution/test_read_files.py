"""Files in FROM: right rows for admins, within the folders that the configuration lists."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, LimitsConfig, StorageConfig
from flightllm.errors import FlightLLMError, LimitExceededError, PermissionDeniedError
from flightllm.execution.read_files import replace_files
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a CSV file in Latin-1 and a Parquet file; beside it lies one that is not to be read."""
    place = tmp_path / "open"
    place.mkdir()
    (place / "x.csv").write_bytes("a;b\n1;ä\nNA;c\n".encode("latin-1"))
    pq.write_table(pa.table({"k": [1, 2]}), place / "p.parquet")
    (tmp_path / "closed.csv").write_text("a\n1\n")
    return place


@pytest.fixture
def database(tmp_path: Path, folder: Path) -> Iterator[Database]:
    """Return a database that lists the folder."""
    config = Config(engine=EngineConfig("fake"), data_folder=tmp_path / "data", storage=StorageConfig((folder,)))
    opened = Database.open(config)
    yield opened
    opened.close()


def test_files_in_from(folder: Path, database: Database) -> None:
    """A file is found with and without options and alias, beside others, in subqueries, AI calls and changes."""
    session = database.session()
    x, p = f"'{folder}/x.csv'", f"'{folder}/p.parquet'"
    both = [{"a": 1, "b": "ä"}, {"a": None, "b": "c"}]
    assert rows(session, f"SELECT * FROM read_csv({x})") == both
    assert rows(session, f"SELECT x.a FROM {x} WHERE x.a = 1") == [{"a": 1}]
    joined = f"SELECT f.a, p.k FROM read_csv({x}, nullstr = ['NA', '-'], delim => ';') f JOIN {p} p ON f.a = p.k"
    assert rows(session, joined) == [{"a": 1, "k": 1}]
    assert len(rows(session, f"SELECT * FROM (SELECT * FROM {x}) t, {p} q")) == 4
    asked = rows(session, f"SELECT b, ai_filter('Good? {{b}}', b) AS good FROM {x}")
    assert {type(row["good"]) for row in asked} == {bool}
    session.update(f"CREATE TABLE t AS SELECT * FROM read_csv({x})")
    session.update(f"INSERT INTO t SELECT * FROM {x}")
    session.update(f"CREATE TABLE u AS SELECT ai_filter('Good? {{b}}', b) AS good FROM {x}")
    assert rows(session, "SELECT count(*) AS n FROM t") == [{"n": 4}]
    assert rows(session, f"SELECT {x} AS text, 'b' AS y") == [{"text": f"{folder}/x.csv", "y": "b"}]
    (folder / "prices.csv").write_text("name;price\ntea;1.234,5\n")
    prices = f"read_csv('{folder}/prices.csv', decimal_separator => ',')"
    assert rows(session, f"SELECT * FROM {prices}") == [{"name": "tea", "price": 1234.5}]
    made = f"CREATE EXTERNAL TABLE prices STORED AS CSV LOCATION '{folder}/prices.csv' OPTIONS (decimal ',')"
    session.update(made)
    assert rows(session, "SELECT price FROM prices") == [{"price": 1234.5}]
    written = f"SELECT replace(replace(\"price\", '.', ''), ',', '.')::double AS p FROM '{folder}/prices.csv'"
    assert rows(session, written) == [{"p": 1234.5}]
    (folder / "x.csv").write_text("a;b\n5;z\n")
    assert rows(session, f"SELECT * FROM read_csv({x})") == [{"a": 5, "b": "z"}]


def test_what_is_refused(tmp_path: Path, folder: Path, database: Database) -> None:
    """Another folder, a wrong argument, another format and another user are refused with what to write."""
    session = database.session()
    x = f"{folder}/x.csv"
    (folder / "bad.parquet").write_bytes(b"PAR1 is not enough PAR1")
    for place, message in (
        (f"read_csv('{tmp_path}/closed.csv')", "in no folder of"),
        (f"'{folder}/../closed.csv'", "in no folder of"),
        (f"read_csv('{x}', foo => 1)", "'foo' is not an option of CSV files; write one of"),
        (f"read_csv('{x}', ';')", "an option must have a name and a constant: write read_csv"),
        ("read_csv(a)", "its first argument must be a path in single quotes"),
        ("read_csv()", "its path is missing"),
        (f"'{folder}/none.parquet'", "only existing CSV, JSON and Parquet files"),
        (f"read_csv('{folder}/none.csv')", "there is no file of this name"),
        (f"'{folder}/bad.parquet'", r"bad\.parquet is not a readable Parquet file"),
        (f"'{folder}/x\0.csv'", "a NUL character"),
        (f"'file://{folder}/x%00.csv'", "a NUL character"),
    ):
        with pytest.raises(FlightLLMError, match=message):
            rows(session, f"SELECT * FROM {place}")
    (folder / "one.csv").write_text("a, b and c\n" + "x\n" * 30)
    with pytest.raises(FlightLLMError, match="',' seems to separate the columns; name the delimiter by the option"):
        rows(session, f"SELECT * FROM '{folder}/one.csv'")
    assert len(rows(session, f"SELECT * FROM read_csv('{folder}/one.csv', delim => ';')")) == 30
    database.access.store.add_user(User("ann", "user"))
    for place in (f"read_csv('{x}')", f"'{x}'"):
        with pytest.raises(PermissionDeniedError, match="reading a file in FROM requires the role admin"):
            rows(database.session(User("ann", "user").principal), f"SELECT * FROM {place}")


def test_a_session_keeps_the_rows_it_read_last(folder: Path, database: Database) -> None:
    """A session reads a file once, until the file changes, it is read with other options, or another one is read."""
    session = database.session()

    def found(of: Session, source: str) -> pa.Table:
        """Return the rows that stand for a file in FROM."""
        tables = list[pa.Table]()

        def keep(rows: pa.Table) -> str:
            tables.append(rows)
            return "t"

        replace_files(ParsedText(f"SELECT * FROM {source}"), of._services, keep)
        return tables[0]

    plain, other = f"'{folder}/x.csv'", f"read_csv('{folder}/x.csv', nullstr => 'NA')"
    first = found(session, plain)
    assert found(session, plain) is first
    assert found(database.session(), plain) is not first
    assert found(session, other).to_pylist() == [{"a": 1, "b": "ä"}, {"a": None, "b": "c"}]
    again = found(session, plain)
    assert again is not first
    assert again.equals(first)
    (folder / "x.csv").write_text("a;b\n5;zz\n")
    assert found(session, plain).to_pylist() == [{"a": 5, "b": "zz"}]
    (folder / "x.csv").unlink()
    with pytest.raises(FlightLLMError, match="there is no file of this name"):
        found(session, plain)


@pytest.mark.parametrize("form", ["SELECT * FROM read_csv('{}')", "SELECT * FROM '{}'"])
def test_a_web_address(database: Database, form: str) -> None:
    """An admin who names a web address is told what to write instead, and the server sends nothing to the address."""
    with socket.create_server(("127.0.0.1", 0)) as site:
        site.setblocking(False)
        address = f"http://127.0.0.1:{site.getsockname()[1]}/x.csv"
        for place in (address, address.replace("http://", "HTTPS://")):
            with pytest.raises(PermissionDeniedError, match="web addresses: start it by `flightllm serve URL`"):
                rows(database.session(), form.format(place))
            with pytest.raises(PermissionDeniedError, match="web addresses: start it by `flightllm serve URL`"):
                database.session().update(f"CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{place}'")
        with pytest.raises(BlockingIOError):
            site.accept()


def test_a_file_that_is_too_large(tmp_path: Path, folder: Path) -> None:
    """A file whose rows take more memory than an upload can is refused, and nothing of it stays behind."""
    limits = LimitsConfig(upload_bytes=10)
    config = Config(
        engine=EngineConfig("fake"), limits=limits, data_folder=tmp_path / "data", storage=StorageConfig((folder,))
    )
    database = Database.open(config)
    for name in ("x.csv", "p.parquet"):
        with pytest.raises(LimitExceededError, match="use CREATE EXTERNAL TABLE"):
            rows(database.session(), f"SELECT * FROM '{folder}/{name}'")
    assert list((tmp_path / "data" / "tables" / "reading").iterdir()) == []
    database.close()


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_a_small_file_with_large_rows(tmp_path: Path, folder: Path, *, as_dictionary: bool) -> None:
    """A file whose rows share one long value is refused by what its rows take, not by how small it is itself."""
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"a": shared}), folder / "d.parquet", store_schema=as_dictionary)
    assert (folder / "d.parquet").stat().st_size < 100_000
    limits = LimitsConfig(upload_bytes=20_000_000)
    config = Config(
        engine=EngineConfig("fake"), limits=limits, data_folder=tmp_path / "data", storage=StorageConfig((folder,))
    )
    database = Database.open(config)
    with pytest.raises(LimitExceededError, match=r"the rows of d\.parquet take more than 20,000,000 bytes"):
        rows(database.session(), f"SELECT count(*) FROM '{folder}/d.parquet'")
    database.close()


def test_names_and_keys_of_files(folder: Path, database: Database) -> None:
    """The option `filename` and folders such as `year=2024` give columns to files of each format."""
    session = database.session()
    for year in (2023, 2024):
        place = folder / "sales" / f"year={year}"
        place.mkdir(parents=True)
        (place / "x.csv").write_text("a,b\n1,x\n")
        (place / "x.json").write_text('{"a": 1, "b": "x"}')
        pq.write_table(pa.table({"a": [1], "b": ["x"]}), place / "x.parquet")
    for ending in ("csv", "json", "parquet"):
        files = f"read_{ending}('{folder}/sales/*/*.{ending}'"
        expected = [{"a": 1, "b": "x", "year": year, "filename": f"year={year}/x.{ending}"} for year in (2023, 2024)]
        assert rows(session, f"SELECT * FROM {files}, filename => true)") == expected
        assert rows(session, f"SELECT sum(year) AS n FROM {files})") == [{"n": 4047}]
        assert "year" not in rows(session, f"SELECT * FROM {files}, hive_partitioning = false)")[0]


def test_other_functions(folder: Path, database: Database) -> None:
    """JSON, Parquet and text files are read by name or pattern, whatever their names end in."""
    session = database.session()
    (folder / "j.data").write_text('{"a": 1}\n{"a": 2}\n')
    (folder / "c.data2").write_text("a,b\n1,2\n")
    pq.write_table(pa.table({"k": [3]}), folder / "p2.parquet")
    assert rows(session, f"SELECT * FROM read_json('{folder}/j.data')") == [{"a": 1}, {"a": 2}]
    assert rows(session, f"SELECT * FROM read_csv('{folder}/c.data2', types => 'b=text')") == [{"a": 1, "b": "2"}]
    assert rows(session, f"SELECT sum(k) AS n FROM read_parquet('{folder}/*.parquet')") == [{"n": 6}]
    assert rows(session, f"SELECT sum(k) AS n FROM '{folder}/p*.parquet'") == [{"n": 6}]
    assert rows(session, f"SELECT * FROM read_text('{folder}/*.data')") == [
        {"name": "j.data", "path": "j.data", "text": '{"a": 1}\n{"a": 2}\n'}
    ]
    for sql, said in (
        (
            f"read_json('{folder}/j.data', header => true)",
            "'header' is not an option of JSON files; write one of filename",
        ),
        (f"read_text('{folder}/j.data', filename => true)", "'filename' is not an option of TEXT files; leave it out"),
        (f"read_text('{folder}/*.none')", "there is no file of this name"),
        (f"read_text('{folder.parent}/*.csv')", "external_folders"),
        (f"read_csv('{folder}/../*.csv')", "external_folders"),
        (f"read_csv('{folder}/c.data2', types => 'b=date')", "the column b has another type"),
        (f"read_csv('{folder}/c.data2', types => 'z=text')", "there is no column z"),
    ):
        with pytest.raises(FlightLLMError, match=said):
            rows(session, f"SELECT * FROM {sql}")
