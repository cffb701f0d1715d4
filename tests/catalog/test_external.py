"""External tables: where they may lie, and that they outlive the server, not its configuration."""

from collections.abc import Iterator
from datetime import time
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.catalog import Catalog
from flightllm.catalog.received import ReceivedTables
from flightllm.catalog.shipping import shipped
from flightllm.config import Config, EngineConfig, LimitsConfig, StorageConfig
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError, SqlError
from flightllm.session.database import Database
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from flightllm.storage.objects import ObjectStores
from tests.catalogs import ENCODED, ROWS, ingest, read, register_file, run, write
from tests.databases import rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder that may have external tables, with one file and one folder; a file beside it may not."""
    write(tmp_path / "open" / "one.parquet", ROWS)
    for name in ("a", "b"):
        write(tmp_path / "open" / "parts" / f"{name}.csv", ROWS)
    write(tmp_path / "closed" / "secret.parquet", ROWS)
    return tmp_path / "open"


@pytest.fixture
def catalog(tmp_path: Path, folder: Path) -> Iterator[Catalog]:
    """Return a catalog that may read the folder."""
    opened = reopened(tmp_path, folder)
    yield opened
    opened.close()


def reopened(tmp_path: Path, *folders: Path) -> Catalog:
    """Open a catalog that may read some folders."""
    return Catalog(LimitsConfig(), None, tmp_path / "tables", StorageConfig(folders))


def create(catalog: Catalog, location: object, kind: str = "PARQUET", verb: str = "CREATE") -> None:
    """Make the external table `e`."""
    catalog.create_external(classify(ParsedText(f"{verb} EXTERNAL TABLE e STORED AS {kind} LOCATION '{location}'")))


def test_outlive_the_server(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    """A file and a folder are read, by later runs too; dropping the table leaves the files."""
    create(catalog, folder / "one.parquet")
    assert read(catalog, "SELECT count(*) AS n FROM e") == [{"n": 3}]
    create(catalog, folder / "parts", "CSV", "CREATE OR REPLACE")
    before = catalog.table("e").schema, catalog.revision(catalog.table("e").name)
    catalog.close()
    later = reopened(tmp_path, folder)
    assert (later.table("e").schema, later.revision(later.table("e").name)) == before
    assert read(later, "SELECT count(*) AS n, max(id) AS m FROM e") == [{"n": 6, "m": 3}]
    for sql in ("INSERT INTO e (id) VALUES (1)", "DELETE FROM e", "UPDATE e SET id = 1"):
        with pytest.raises(PermissionDeniedError, match="an external table and can only be read"):
            run(later, sql)
    with pytest.raises(InvalidInputError, match="is an external table: drop it first"):
        run(later, "CREATE OR REPLACE TABLE e (a INT)")
    run(later, "DROP TABLE e")
    with pytest.raises(NotFoundError):
        later.table("e")
    assert len(list((folder / "parts").iterdir())) == 2
    later.close()


def test_refused_places(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    """A path outside, by `..`, by a link or through a link in a folder is refused; whether it exists is not told."""
    (folder / "link.parquet").symlink_to(tmp_path / "closed" / "secret.parquet")
    (folder / "within.parquet").symlink_to(folder / "one.parquet")
    (folder / "linked").mkdir()
    (folder / "linked" / "in.parquet").symlink_to(tmp_path / "closed" / "secret.parquet")
    messages = set()
    for place in (
        tmp_path / "closed" / "secret.parquet",
        tmp_path / "closed" / "none.parquet",
        folder / ".." / "closed" / "secret.parquet",
        folder / "link.parquet",
        folder / "linked",
        f"{folder}-other/x.parquet",
        f"file://{tmp_path}/closed/secret.parquet",
        f"file://{folder}/%2e%2e/closed/secret.parquet",
        "one.parquet",
        "~/x.parquet",
        "/etc/passwd",
        "/",
    ):
        with pytest.raises(PermissionDeniedError) as raised:
            create(catalog, place)
        messages.add(str(raised.value))
    assert len(messages) == 1
    for address, message in (
        ("s3://bucket/x.parquet", "no object store in"),
        ("http://127.0.0.1/x.parquet", "does not read web addresses"),
        ("gs://bucket/x.parquet", "no object store in"),
    ):
        with pytest.raises(PermissionDeniedError, match=message):
            create(catalog, address)
    create(catalog, folder / "within.parquet")
    create(catalog, f"file://{folder}/one.parquet", verb="CREATE OR REPLACE")


def test_a_place_that_is_listed_no_more(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    """The table stays in the list, but cannot be read until the configuration lists its folder again."""
    create(catalog, folder / "one.parquet")
    catalog.close()
    without = reopened(tmp_path)
    with pytest.raises(FlightLLMError, match="has the external table 'e' any more"):
        read(without, "SELECT * FROM e")
    run(without, "CREATE TABLE other (a INT)")
    without.close()
    again = reopened(tmp_path, folder)
    assert read(again, "SELECT count(*) AS n FROM e") == [{"n": 3}]
    again.close()


def test_what_cannot_be_one(folder: Path, catalog: Catalog) -> None:
    """A missing file, another format, encoded columns or a name that is taken are refused with the reason."""
    write(folder / "encoded.arrow", ENCODED)
    write(folder / "t.arrow", ROWS)
    ingest(catalog, "taken", {"a": [1]})
    for place, kind, message in (
        (folder / "none.parquet", "PARQUET", "there is no file or folder"),
        (folder / "one.parquet", "CSV", r"CSV files end in \.csv, \.tsv"),
        (folder / "encoded.arrow", "ARROW", "write them as Parquet"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            create(catalog, place, kind)
    with pytest.raises(InvalidInputError, match="a table that the server stores"):
        catalog.create_external(
            classify(ParsedText(f"CREATE OR REPLACE EXTERNAL TABLE taken STORED AS ARROW LOCATION '{folder}/t.arrow'"))
        )
    create(catalog, folder / "t.arrow", "ARROW")
    assert read(catalog, "SELECT id FROM e") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert catalog.table("e").schema.types == [pa.int64(), pa.string()]


def test_csv_options_outlive_the_server(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    """What OPTIONS says of CSV files holds for later runs, and what a file came to hold meanwhile is read."""
    path = folder / "odd.csv"
    path.write_bytes("1!'Köln!x'\nNA!-\n".encode("latin-1"))
    options = "'format.delimiter' '!', quote '''', null = 'NA,-', encoding 'latin-1', 'has_header' 'false'"
    catalog.create_external(
        classify(ParsedText(f"CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{path}' OPTIONS ({options})"))
    )
    expected = [{"column1": 1, "column2": "Köln!x"}, {"column1": None, "column2": None}]
    assert read(catalog, "SELECT * FROM e") == expected
    catalog.close()
    path.write_bytes(path.read_bytes() + b"2!y\n")
    later = reopened(tmp_path, folder)
    assert read(later, "SELECT * FROM e") == [*expected, {"column1": 2, "column2": "y"}]
    assert later.table("e").schema.types == [pa.int64(), pa.string()]
    later.close()


@pytest.mark.parametrize("kind", ["CSV", "JSON", "PARQUET"])
def test_names_of_files_outlive_the_server(tmp_path: Path, folder: Path, catalog: Catalog, kind: str) -> None:
    """The column `filename` is there in later runs too, and has files that were added meanwhile."""
    ending = kind.lower()
    for name in ("a", "b"):
        write(folder / "named" / f"{name}.{ending}", ROWS)
    sql = f"CREATE EXTERNAL TABLE e STORED AS {kind} LOCATION '{folder}/named' OPTIONS (filename 'true')"
    catalog.create_external(classify(ParsedText(sql)))
    asked = "SELECT filename, count(*) AS n FROM e GROUP BY filename ORDER BY filename"
    expected = [{"filename": f"{name}.{ending}", "n": 3} for name in ("a", "b", "c")]
    assert read(catalog, asked) == expected[:2]
    catalog.close()
    write(folder / "named" / f"c.{ending}", ROWS)
    later = reopened(tmp_path, folder)
    assert read(later, asked) == expected
    later.close()


def test_types_of_json(folder: Path, catalog: Catalog) -> None:
    """OPTIONS gives fields of JSON their types; a value that does not fit is named."""
    (folder / "t.json").write_text('{"zip": 1.10, "at": "05:40", "n": "7", "l": [1]}')
    made = f"CREATE EXTERNAL TABLE e STORED AS JSON LOCATION '{folder}/t.json' OPTIONS (types '{{}}')"
    catalog.create_external(classify(ParsedText(made.format("zip=text, at=time, N=bigint, l=text"))))
    assert read(catalog, "SELECT * FROM e") == [{"zip": "1.10", "at": time(5, 40), "n": 7, "l": "[1]"}]
    for types, said in (("at=bigint", "types: a column has another type"), ("z=text", "there is no column z")):
        with pytest.raises(InvalidInputError, match=said):
            catalog.create_external(classify(ParsedText(made.format(types).replace(" e ", " f "))))


def test_an_emptied_folder_is_an_error(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    """A folder whose CSV files are gone is no empty table, now or after a restart, until it has files again."""
    create(catalog, folder / "parts", "CSV")
    for file in (folder / "parts").iterdir():
        file.unlink()
    with pytest.raises(FlightLLMError, match="the file of the table 'e' cannot be read: there is no file"):
        read(catalog, "SELECT * FROM e")
    catalog.close()
    later = reopened(tmp_path, folder)
    with pytest.raises(FlightLLMError, match="the file of the table 'e' cannot be read: there is no file"):
        read(later, "SELECT * FROM e")
    write(folder / "parts" / "c.csv", ROWS)
    assert read(later, "SELECT count(*) AS n FROM e") == [{"n": 3}]
    later.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'seperator' ';'", r"'seperator' is not an option of CSV files; write one of delimiter, quote"),
        ("delimiter ';;'", r"delimiter: expected one character, such as ';', got ';;'"),
        ("encoding 'klingon'", r"encoding: 'klingon' is unknown; write utf-8"),
        ("header 'maybe'", r"header: expected 'true' or 'false', got 'maybe'"),
        ("'format.newlines_in_values' 'true'", r"line breaks inside quotes are always read; leave this option out"),
        ("null 'NA', null 'x'", r"the option null is given twice"),
        ("delimiter ';' quote '|'", r"expected , or \) after the option delimiter"),
    ],
)
def test_wrong_options(folder: Path, catalog: Catalog, options: str, message: str) -> None:
    """An option that is unknown or impossible is refused with what to write."""
    with pytest.raises((InvalidInputError, SqlError), match=message):
        catalog.create_external(
            classify(ParsedText(f"CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{folder}/parts' OPTIONS ({options})"))
        )


def test_only_for_admins(tmp_path: Path, folder: Path) -> None:
    """A user who is no admin is refused, whatever the configuration lists."""
    config = Config(engine=EngineConfig("fake"), data_folder=tmp_path / "data", storage=StorageConfig((folder,)))
    opened = Database.open(config)
    sql = f"CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{folder}/one.parquet'"
    for user in (User("ann", "user"), User("bob", "readonly")):
        opened.access.store.add_user(user)
        with pytest.raises(PermissionDeniedError):
            opened.session(user.principal).update(sql)
    admin = opened.session()
    assert admin.update(sql) == -1
    assert rows(admin, "SELECT count(*) AS n FROM e") == [{"n": 3}]
    assert str(folder) not in str(rows(admin, "EXPLAIN SELECT * FROM e"))
    opened.close()


def test_other_processes_read_csv_tables(folder: Path, catalog: Catalog) -> None:
    """A process that runs a query apart reads the rows of a CSV table as this one does, with OPTIONS too."""
    (folder / "odd.csv").write_text("1!x\n2!y\n")
    options = "OPTIONS (delimiter '!', header 'false')"
    catalog.create_external(
        classify(ParsedText(f"CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{folder}/odd.csv' {options}"))
    )
    register_file(catalog, "parts", folder / "parts")
    with catalog.reading():
        sent = shipped(catalog, "SELECT * FROM e, parts")
        received = ReceivedTables(sent, LimitsConfig(), ObjectStores(StorageConfig()))
        counted = received.context().sql("SELECT count(*) AS n, sum(column1) AS s FROM e, parts")
        assert counted.to_pydict() == {"n": [12], "s": [18]}
