"""SQL of statements, tables and types; no server is needed."""

from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
from flightllm.alchemy.dialect import FlightLLMDialect  # noqa: E402 -- after the test for its package

_META = alchemy.MetaData()
_T = alchemy.Table("t", _META, alchemy.Column("n", alchemy.Integer), alchemy.Column("j", alchemy.JSON))


def _sql(statement: Any) -> str:
    options = {"render_postcompile": True}
    return " ".join(str(statement.compile(dialect=FlightLLMDialect(), compile_kwargs=options)).split())


@pytest.mark.parametrize(
    ("statement", "sql"),
    [
        (alchemy.select(_T.c.n).limit(2).offset(1), "SELECT t.n FROM t LIMIT ? OFFSET ?"),
        (alchemy.select(_T.c.n).offset(1), "SELECT t.n FROM t LIMIT ALL OFFSET ?"),
        (alchemy.select(_T.c.n).with_for_update(), "SELECT t.n FROM t"),
        (alchemy.select(_T.c.n / _T.c.n), "SELECT t.n / CAST(t.n AS DOUBLE PRECISION) AS anon_1 FROM t"),
        (alchemy.select(_T.c.n.is_(True)), "SELECT t.n IS true AS anon_1 FROM t"),
        (alchemy.select(_T.c.j["a"]), "SELECT json_get_json(t.j, 'a') AS anon_1 FROM t"),
        (alchemy.select(_T.c.j[("a", 0)].as_string()), "SELECT json_as_text(t.j, 'a', 0) AS anon_1 FROM t"),
        (
            alchemy.select(_T.c.j["it's"].as_integer()),
            "SELECT CAST(json_as_text(t.j, 'it''s') AS INTEGER) AS anon_1 FROM t",
        ),
    ],
)
def test_statements(statement: Any, sql: str) -> None:
    """Each statement is written as the server reads it."""
    assert _sql(statement) == sql


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (alchemy.Float(), "DOUBLE PRECISION"),
        (alchemy.Float(53), "DOUBLE PRECISION"),
        (alchemy.Float(24), "REAL"),
        (alchemy.DateTime(), "TIMESTAMP(6)"),
        (alchemy.DateTime(timezone=True), "TIMESTAMP(6) WITH TIME ZONE"),
        (alchemy.Time(), "TIME"),
        (alchemy.Interval(second_precision=3), "INTERVAL"),
        (alchemy.Uuid(), "UUID"),
        (alchemy.LargeBinary(), "BYTEA"),
        (alchemy.Enum("a", "bc"), "VARCHAR(2)"),
        (alchemy.ARRAY(alchemy.DateTime, dimensions=2), "TIMESTAMP(6)[][]"),
    ],
)
def test_types(kind: Any, sql: str) -> None:
    """Each type keeps all of Python's values."""
    assert kind.compile(dialect=FlightLLMDialect()) == sql


def test_names() -> None:
    """Names with capitals, and words that the server reads in its own way, are quoted."""
    quote = FlightLLMDialect().identifier_preparer.quote
    assert [quote(name) for name in ("name", "Name", "key", "user")] == ["name", '"Name"', '"key"', '"user"']


def test_no_numbering() -> None:
    """A primary key is a plain column: the server numbers none."""
    table = alchemy.Table("k", alchemy.MetaData(), alchemy.Column("id", alchemy.Integer, primary_key=True))
    assert _sql(alchemy.schema.CreateTable(table)) == "CREATE TABLE k ( id INTEGER NOT NULL, PRIMARY KEY (id) )"


def test_missing_keys() -> None:
    """An INSERT without its primary key is an error that says what to write, unless something makes the key."""
    columns = (alchemy.Column("id", alchemy.Integer, primary_key=True), alchemy.Column("n", alchemy.Integer))
    table = alchemy.Table("k", alchemy.MetaData(), *columns)
    numbers = alchemy.select(table.c.n)
    empty = table.insert()
    wrong = (empty.values(n=1), empty.values([{"n": 1}]), empty.values({}), empty.from_select(["n"], numbers))
    for insert in wrong:
        with pytest.raises(alchemy.exc.CompileError, match=r"k\.id a value"):
            _sql(insert)
    with pytest.raises(alchemy.exc.CompileError, match="numbers no keys"):
        empty.compile(dialect=FlightLLMDialect(), column_keys=["n"])
    rows = (empty.values([{"id": 1, "n": 2}]), empty.values([(1, 2), (2, 3)]), empty.values({table.c.id: 1}))
    for good in (empty, empty.values(id=1), *rows, empty.from_select(["id"], numbers)):
        assert _sql(good).startswith("INSERT INTO k (id")
    table.c.id.default = alchemy.ColumnDefault(lambda: 1)
    assert _sql(empty.values(n=1)).startswith("INSERT INTO k (id, n)")


def test_refused() -> None:
    """A computed column is an error before anything is sent."""
    columns = (alchemy.Column("a", alchemy.Integer), alchemy.Column("b", alchemy.Integer, alchemy.Computed("a + 1")))
    with pytest.raises(alchemy.exc.CompileError, match="no computed"):
        _sql(alchemy.schema.CreateTable(alchemy.Table("k", alchemy.MetaData(), *columns)))


def test_indexes() -> None:
    """An index over columns is a comment with a warning, which says that a unique one is not checked."""
    table = alchemy.Table("k", alchemy.MetaData(), alchemy.Column("a", alchemy.Integer))
    for index, message in (
        (alchemy.Index("ix", table.c.a), "is not made$"),
        (alchemy.Index("ux", table.c.a, unique=True), "check"),
    ):
        with pytest.warns(alchemy.exc.SAWarning, match=message):
            assert _sql(alchemy.schema.CreateIndex(index)).startswith("--")
        assert _sql(alchemy.schema.DropIndex(index)).startswith("--")
