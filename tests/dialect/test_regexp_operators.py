"""RLIKE and REGEXP: regular expressions as operators."""

import pytest

from flightllm.dialect import rewrite
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.places import EMPTY


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("name RLIKE '^[AE]'", [1, 5, 7, 8]),
        ("name NOT REGEXP '^[AE]' AND id < 5", [2, 4]),
        ("p.name REGEXP substr(name, 1, 1) AND NOT lower(name) RLIKE ('A|n')", [2, 5, 9]),
    ],
)
def test_rows(session: Session, condition: str, ids: list[int]) -> None:
    """A condition keeps the rows with a match."""
    found = ask(session, f"SELECT id FROM people AS p WHERE {condition} ORDER BY id").rows
    assert [row["id"] for row in found] == ids


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a AS rlike, regexp FROM t",
        "SELECT a regexp FROM t rlike WHERE rlike.a = 1",
        "SELECT regexp('a') FROM t regexp JOIN u ON a = b",
        "CREATE TABLE t (a INT, regexp VARCHAR)",
    ],
)
def test_leaves_alone(sql: str) -> None:
    """Columns, aliases and functions of these names stay."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql
