"""Ibis over PostgreSQL's protocol."""

import pytest

from tests.postgres.support import Place

ibis = pytest.importorskip("ibis", reason="the extra 'test' is not installed")


def test_ibis(place: Place) -> None:
    """Ibis's backend for PostgreSQL lists tables, reads their types, and runs expressions."""
    connection = ibis.postgres.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm")
    try:
        assert "t" in connection.list_tables()
        table = connection.table("t")
        assert table.schema().names == ("a", "b")
        small = table.filter(table.a < 4).mutate(double=table.a * 2)
        assert small.order_by("a").to_pyarrow().to_pydict() == {
            "a": [1, 2, 3],
            "b": ["text 1", "text 2", "text 3"],
            "double": [2, 4, 6],
        }
        assert table.a.sum().to_pyarrow().as_py() == 50_005_000
        counted = table.group_by(part=table.a % 3).aggregate(rows=table.count()).order_by("part")
        assert counted.to_pyarrow()["rows"].to_pylist() == [3333, 3334, 3333]
    finally:
        connection.disconnect()
