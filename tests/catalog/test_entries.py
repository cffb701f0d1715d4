"""A text that names no table with intervals or arrays is told apart without a look at the columns of its tables."""

from pathlib import Path

from flightllm.sql.parsed_text import ParsedText
from tests.databases import small_database


def test_named_in(tmp_path: Path) -> None:
    """Tables with intervals or arrays and the views over these are found, and dropped tables are forgotten."""
    database = small_database(tmp_path)
    session = database.session()
    found = database.catalog.store.compared_tables
    session.update("CREATE TABLE plain AS SELECT 1 AS a")
    assert not found.named_in(ParsedText("SELECT * FROM plain"))
    session.update("CREATE TABLE \"Long\" AS SELECT INTERVAL '1 day' AS a")
    session.update('CREATE VIEW seen AS SELECT a FROM "Long"')
    session.update("CREATE VIEW twice AS SELECT a FROM seen")
    named = ['SELECT * FROM public."Long"', "SELECT * FROM seen", "SELECT 1 FROM plain JOIN twice USING (a)"]
    assert all(found.named_in(ParsedText(sql)) for sql in named)
    assert not found.named_in(ParsedText("SELECT 'seen' FROM plain"))
    session.update("CREATE TABLE listed AS SELECT [1] AS l")
    session.update("CREATE VIEW grouped AS SELECT array_agg(a) AS l FROM plain")
    assert all(found.named_in(ParsedText(f"SELECT * FROM {name}")) for name in ("listed", "grouped"))
    session.update("CREATE TABLE stored (a bytea)")
    reads = ParsedText("SELECT * FROM stored")
    assert found.with_bytes_in(reads)
    assert not found.named_in(reads)
    assert not found.with_bytes_in(ParsedText("SELECT * FROM plain"))
    session.update("DROP VIEW twice")
    assert not found.named_in(ParsedText("SELECT * FROM twice"))
    database.close()
