"""The texts of ALTER TABLE and ALTER VIEW."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("sql", "kind", "old", "new", "exists_ok"),
    [
        ("ALTER TABLE t RENAME TO u", "rename_table", "t", "u", False),
        ('alter table if exists s."T" rename to "U";', "rename_table", "s.T", "s.U", True),
        ("ALTER TABLE ONLY t SET SCHEMA s", "rename_table", "t", "s.t", False),
        ("ALTER VIEW v RENAME TO w -- soon", "rename_view", "v", "w", False),
    ],
)
def test_forms(sql: str, kind: str, old: str, new: str, exists_ok: bool) -> None:
    """The new name stays in the schema of the old one, or the schema changes."""
    statement = classify(ParsedText(sql))
    assert statement.renamed is not None
    assert (statement.kind, [name.display for name in statement.dropped]) == (kind, [old])
    assert (statement.renamed.display, statement.exists_ok) == (new, exists_ok)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER TABLE t RENAME TO s.u", "a name of one part was expected"),
        ("ALTER TABLE t RENAME TO", "a name of one part was expected"),
        ("ALTER TABLE t RENAME TO u CASCADE", "'CASCADE' was not expected"),
        (
            "ALTER TABLE t RENAME COLUMN a TO b",
            r"RENAME COLUMN is not supported: create the table again .* SELECT a AS b",
        ),
        ("ALTER TABLE t RENAME a TO b", "RENAME COLUMN is not supported"),
        (
            "ALTER TABLE people ADD COLUMN x int",
            "this ALTER is not supported: write ALTER TABLE.*CREATE OR REPLACE TABLE",
        ),
        ("ALTER TABLE IF t RENAME TO u", "EXISTS was expected"),
        ("ALTER SCHEMA s RENAME TO t", "only tables and views can be altered"),
        ("ALTER", "only tables and views can be altered"),
    ],
)
def test_errors(sql: str, message: str) -> None:
    """An error says what ALTER can do, and what to write for the rest."""
    with pytest.raises(FlightLLMError, match=message):
        classify(ParsedText(sql))
