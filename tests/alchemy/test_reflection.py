"""What tools find in the catalog: schemas, tables, views, columns, keys."""

from collections.abc import Iterator
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
from flightllm.alchemy.types import Map, Struct  # noqa: E402 -- after the test for its package

MAKE = (
    "CREATE SCHEMA sales",
    "CREATE TABLE parents (id INT PRIMARY KEY, name VARCHAR(9) UNIQUE, CONSTRAINT both UNIQUE (id, name))",
    """CREATE TABLE sales.children (a INT, b INT NOT NULL, PRIMARY KEY (b, a),
        CONSTRAINT up FOREIGN KEY (a) REFERENCES public.parents (id) ON DELETE CASCADE)""",
    """CREATE TABLE kinds (i SMALLINT, l BIGINT, f REAL, d DOUBLE, n NUMERIC(10, 2), s TEXT, b BYTEA, o BOOLEAN, t TIME,
        day DATE, at TIMESTAMP, moment TIMESTAMPTZ, span INTERVAL, many INT[][], pair STRUCT<x INT, y TEXT>)""",
    "CREATE VIEW seen AS SELECT id, ai_gen('Greet {name}', name) AS greeting FROM parents",
    "CREATE TABLE a_b (n INT)",
    "CREATE TABLE axb (other TEXT)",
)


@pytest.fixture(scope="module")
def inspector(engine: Any) -> Iterator[Any]:
    """Make the tables, and look at them on one connection, which has a temporary table too."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for sql in (*MAKE, "CREATE TEMPORARY TABLE passing (n INT)"):
            connection.execute(alchemy.text(sql))
        yield alchemy.inspect(connection)


def test_names(inspector: Any) -> None:
    """Schemas, tables, views and temporary tables are listed apart."""
    assert inspector.get_schema_names() == ["public", "sales", "system"]
    assert inspector.get_table_names() == ["a_b", "axb", "kinds", "parents"]
    assert inspector.get_table_names("sales") == ["children"]
    assert "queries" in inspector.get_table_names("system")
    assert (inspector.get_view_names(), inspector.get_temp_table_names()) == (["seen"], ["passing"])
    names = ("parents", "seen", "passing", "children", "nope", "Parents")
    assert [inspector.has_table(name) for name in names] == [True, True, True, False, False, False]
    assert inspector.has_table("children", "sales")
    assert [inspector.has_schema(name) for name in ("sales", "nope")] == [True, False]


def test_columns(inspector: Any) -> None:
    """Each column has its type, and whether it can be NULL; a name with `_` is no pattern."""
    shown = [str(column["type"]) for column in inspector.get_columns("kinds")[:-2]]
    assert shown[:6] == ["SMALLINT", "BIGINT", "REAL", "DOUBLE PRECISION", "NUMERIC(10, 2)", "VARCHAR"]
    assert shown[6:] == ["BLOB", "BOOLEAN", "TIME", "DATE", "TIMESTAMP", "TIMESTAMP", "INTERVAL"]
    many, pair = (column["type"] for column in inspector.get_columns("kinds")[-2:])
    assert (str(many.item_type), many.dimensions) == ("INTEGER", 2)
    assert isinstance(pair, Struct)
    assert [(name, str(kind)) for name, kind in pair.fields] == [("x", "INTEGER"), ("y", "VARCHAR")]
    assert inspector.get_columns("kinds")[11]["type"].timezone
    assert [column["nullable"] for column in inspector.get_columns("parents")] == [False, True]
    assert [column["name"] for column in inspector.get_columns("a_b")] == ["n"]
    assert [column["name"] for column in inspector.get_columns("seen")] == ["id", "greeting"]
    assert [column["name"] for column in inspector.get_columns("passing")] == ["n"]


def test_keys(inspector: Any) -> None:
    """Primary, unique and foreign keys have their columns, names and rules."""
    assert inspector.get_pk_constraint("children", "sales")["constrained_columns"] == ["b", "a"]
    assert inspector.get_pk_constraint("kinds")["constrained_columns"] == []
    unique = {one["name"]: one["column_names"] for one in inspector.get_unique_constraints("parents")}
    assert unique["both"] == ["id", "name"]
    (up,) = inspector.get_foreign_keys("children", "sales")
    assert (up["name"], up["constrained_columns"], up["referred_columns"]) == ("up", ["a"], ["id"])
    assert (up["referred_schema"], up["referred_table"]) == ("public", "parents")
    assert up["options"] == {"ondelete": "CASCADE"}
    assert inspector.get_indexes("parents") == inspector.get_check_constraints("parents") == []
    assert inspector.get_table_comment("parents") == {"text": None}


def test_missing_tables(inspector: Any) -> None:
    """A table that there is not is an error of SQLAlchemy's own."""
    for ask in (inspector.get_columns, inspector.get_pk_constraint, inspector.get_foreign_keys):
        with pytest.raises(alchemy.exc.NoSuchTableError):
            ask("nope")


def test_whole_schema(inspector: Any) -> None:
    """`MetaData.reflect` reads all tables at once, and what it read makes them again."""
    metadata = alchemy.MetaData()
    metadata.reflect(inspector.bind, views=True)
    assert {"parents", "kinds", "seen"} <= set(metadata.tables)
    kinds = metadata.tables["kinds"].to_metadata(alchemy.MetaData(), name="kinds_again")
    kinds.create(inspector.bind)
    again, first = alchemy.inspect(inspector.bind).get_columns("kinds_again"), inspector.get_columns("kinds")
    assert [str(column["type"]) for column in again[:-2]] == [str(column["type"]) for column in first[:-2]]
    kinds.drop(inspector.bind)


def test_maps() -> None:
    """A map's type has the types of its keys and values."""
    import pyarrow as pa

    from flightllm.alchemy.types import of_arrow

    found = of_arrow(pa.map_(pa.string(), pa.int64()))
    assert isinstance(found, Map)
    assert (str(found.key), str(found.value)) == ("VARCHAR", "BIGINT")
