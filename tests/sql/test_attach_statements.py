"""ATTACH, DETACH and REFRESH DATABASE, read."""

import pytest

from flightllm.errors import SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("sql", "name", "address", "options"),
    [
        ("ATTACH 'x.sqlite'", "x", "x.sqlite", {}),
        ("ATTACH DATABASE '/a/Shop.duckdb' AS s", "s", "/a/Shop.duckdb", {}),
        ("ATTACH IF NOT EXISTS 'dbname=x' AS s (TYPE postgres, READ_ONLY)", "s", "dbname=x", {"type": "postgres"}),
        (
            "attach or replace 'postgresql://h/d' AS s (type = 'postgres', ttl_seconds 5, SCHEMA app, read_only true);",
            "s",
            "postgresql://h/d",
            {"type": "postgres", "ttl_seconds": "5", "schema": "app"},
        ),
        ("ATTACH '/a/Shop.db' (TYPE sqlite)", "shop", "/a/Shop.db", {"type": "sqlite"}),
    ],
)
def test_attach(sql: str, name: str, address: str, options: dict[str, str]) -> None:
    """The address, the name and the options are read in the spelling of DuckDB."""
    found = classify(ParsedText(sql))
    assert (found.kind, found.key, found.value, dict(found.options)) == ("attach", name, address, options)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ATTACH x AS y", "the address must be a text in single quotes"),
        ("ATTACH 'postgresql://h/d'", "the name does not follow from the address"),
        ("ATTACH 'x.db' AS a.b", "a name of one part"),
        ("ATTACH 'x.db' AS a (COLOUR red)", "there is no option 'colour'"),
        ("ATTACH 'x.db' AS a (TYPE)", "the option type needs a value"),
        ("ATTACH 'x.db' AS a (TYPE sqlite, TYPE sqlite)", "the option type is given twice"),
        ("ATTACH 'x.db' AS a (TYPE sqlite", "a comma or \\)"),
        ("ATTACH 'x.db' AS a READ_ONLY", "'READ_ONLY' was not expected"),
        ("DETACH", "a database must have a name"),
        ("DETACH a b", "'b' was not expected"),
        ("REFRESH DATABASE", "a database must have a name"),
    ],
)
def test_wrong(sql: str, message: str) -> None:
    """A wrong statement is told with what to write."""
    with pytest.raises(SqlError, match=message):
        classify(ParsedText(sql))


def test_others() -> None:
    """DETACH and REFRESH DATABASE name a database."""
    found = classify(ParsedText("DETACH DATABASE IF EXISTS x"))
    assert (found.kind, found.key, found.exists_ok) == ("detach", "x", True)
    assert classify(ParsedText("DETACH x")).exists_ok is False
    assert classify(ParsedText("REFRESH DATABASE x")).kind == "refresh_database"
