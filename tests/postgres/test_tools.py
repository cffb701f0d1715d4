"""The queries about the catalog that tools send, over the wire."""

from collections.abc import Iterator

import psycopg
import pytest

pytest.importorskip("duckdb")

from tests.pg_catalog.test_tools import TABLES, TOOLS
from tests.postgres.support import Place


@pytest.fixture(scope="module")
def connection(place: Place) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
    """Connect, beside the tables that the queries ask for."""
    with place.connect() as connection:
        for text in TABLES:
            connection.execute(text)
        yield connection


@pytest.mark.parametrize("tool", TOOLS)
def test_a_query_of_a_tool(connection: "psycopg.Connection[tuple[object, ...]]", tool: str) -> None:
    """Each query runs, and its rows arrive."""
    found = connection.execute(TOOLS[tool].encode())
    assert found.description
    assert all(len(row) == len(found.description) for row in found.fetchall())
