"""Statements of BigQuery that change rows run as pasted."""

from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from tests.databases import ask, small_database

_BIGQUERY = {"dialect": "bigquery"}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("MERGE t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT ROW", [(1, "old"), (2, "b")]),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY TARGET THEN INSERT ROW", [(1, "old"), (2, "b")]),
        (
            (
                "MERGE t USING (SELECT id + 5 AS x, v AS y FROM s) AS n ON FALSE"
                " WHEN NOT MATCHED AND x > 6 THEN INSERT ROW WHEN NOT MATCHED BY SOURCE THEN DELETE"
            ),
            [(7, "b")],
        ),
        ("WITH n AS (SELECT 5 AS a, 'w' AS b) INSERT INTO t (id, v) SELECT * FROM n", [(1, "old"), (5, "w")]),
    ],
)
def test_rows(tmp_path: Path, text: str, rows: list[tuple[int, str]]) -> None:
    """INSERT ROW adds the columns of the source in their order, and MERGE needs no INTO."""
    database = small_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE t AS SELECT 1 AS id, 'old' AS v")
    session.update("CREATE TABLE s AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS n(id, v)")
    session.update(text, settings=_BIGQUERY)
    found = ask(session, "SELECT id, v FROM t ORDER BY id", dialect="bigquery").rows
    assert [tuple(row.values()) for row in found] == rows
    database.close()


def test_too_many_columns(tmp_path: Path) -> None:
    """INSERT ROW of a source with more columns than the table is an error."""
    database = small_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE t AS SELECT 1 AS id")
    with pytest.raises(FlightLLMError, match="INSERT has 2 values"):
        session.update(
            "MERGE t USING (SELECT 2 AS id, 3 AS v) AS s ON FALSE WHEN NOT MATCHED THEN INSERT ROW", settings=_BIGQUERY
        )
    database.close()
