"""The tools that people use over SQLAlchemy: the ORM, pandas, polars, JupySQL, bridges for agents."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
from sqlalchemy import orm  # noqa: E402 -- after the test for its package

text = alchemy.text


def test_orm(engine: Any) -> None:
    """Objects are added, found, followed to others, changed and deleted."""
    registry = orm.registry()
    columns = (alchemy.Column("id", alchemy.Integer, primary_key=True), alchemy.Column("name", alchemy.String))
    authors = alchemy.Table("authors", registry.metadata, *columns)
    up = alchemy.Column("author", alchemy.Integer, alchemy.ForeignKey("authors.id"))
    books = alchemy.Table("books", registry.metadata, alchemy.Column("id", alchemy.Integer, primary_key=True), up)

    class Author:
        books: list[Any]

    class Book:
        owner: Author

    registry.map_imperatively(Author, authors, properties={"books": orm.relationship(Book, back_populates="owner")})
    registry.map_imperatively(Book, books, properties={"owner": orm.relationship(Author, back_populates="books")})
    registry.metadata.create_all(engine)

    def made(kind: type, **values: object) -> Any:
        return kind(**values)  # SQLAlchemy gives the class its constructor

    with orm.Session(engine) as session:
        session.add(made(Author, id=1, name="Ann", books=[made(Book, id=10), made(Book, id=11)]))
        session.commit()
    with orm.Session(engine) as session:
        found = session.get(Book, 10)
        assert found.owner.name == "Ann"
        ann = session.scalars(alchemy.select(Author).options(orm.selectinload(Author.books))).one()
        assert [book.id for book in ann.books] == [10, 11]
        ann.name = "Anna"
        session.delete(found)
        session.commit()
        assert session.scalars(alchemy.select(authors.c.name)).all() == ["Anna"]
        assert session.scalar(alchemy.select(alchemy.func.count()).select_from(Book)) == 1
    registry.dispose()


@pytest.mark.slow
def test_pandas(engine: Any) -> None:
    """Frames go in by each of pandas's ways, also an empty one, and come out with parameters and in parts."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None], "at": pandas.to_datetime(["2024-01-02", "1500-01-01"])})
    frame.head(0).to_sql("frame", engine, index=False)
    assert len(pandas.read_sql_table("frame", engine)) == 0
    for way in ({"method": "multi"}, {"chunksize": 1}, {}):
        assert frame.to_sql("frame", engine, index=False, if_exists="append", **way) == 2
    with pytest.raises(ValueError, match="exists"):
        frame.to_sql("frame", engine, index=False)
    assert pandas.read_sql_table("frame", engine)["at"].min() == pandas.Timestamp("1500-01-01")
    found = pandas.read_sql(text("SELECT a, b FROM frame WHERE a > :least"), engine, params={"least": 1})
    assert found["a"].tolist() == [2, 2, 2]
    parts = pandas.read_sql("SELECT a FROM frame WHERE a > ?", engine, params=(0,), chunksize=4)
    assert [len(part) for part in parts] == [4, 2]
    assert frame.to_sql("frame", engine, index=False, if_exists="replace") == 2
    assert len(pandas.read_sql("SELECT * FROM frame", engine)) == 2


def test_pandas_index(engine: Any) -> None:
    """A frame goes in with its index by default; the index over the column is skipped with a warning."""
    pandas = pytest.importorskip("pandas")
    with pytest.warns(alchemy.exc.SAWarning, match="needs no index"):
        assert pandas.DataFrame({"a": [7]}).to_sql("indexed", engine) == 1
    assert pandas.read_sql_table("indexed", engine, index_col="index")["a"].tolist() == [7]
    assert alchemy.inspect(engine).get_indexes("indexed") == []


def test_polars(engine: Any) -> None:
    """Polars reads over the engine."""
    polars = pytest.importorskip("polars")
    frame = polars.read_database("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s) ORDER BY n", engine)
    assert frame.rows() == [(1, "a"), (2, None)]


def test_agents(url: str) -> None:
    """A bridge for agents opens AUTOCOMMIT engines, asks for the version, lists tables, and describes them."""
    engine = alchemy.create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True, pool_size=1, max_overflow=0)
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE shown (id INT PRIMARY KEY, body TEXT)"))
        assert ".".join(map(str, engine.dialect.server_version_info)).startswith("0.")
    inspector = alchemy.inspect(engine)
    assert "shown" in inspector.get_table_names()
    assert [column["name"] for column in inspector.get_columns("shown")] == ["id", "body"]
    engine.dispose()


@pytest.mark.slow
def test_import_is_light() -> None:
    """The dialect needs none of the server's parts."""
    heavy = ("datafusion", "torch", "flightllm.session", "flightllm.flight")
    code = f"import sys, flightllm.alchemy.dialect; print([name for name in {heavy} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "[]\n"


def test_entry_point() -> None:
    """pyproject.toml names the dialect for SQLAlchemy."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for target in project["entry-points"]["sqlalchemy.dialects"].values():
        module, name = target.split(":")
        assert getattr(import_module(module), name).name == "flightllm"


@pytest.mark.slow
def test_jupysql(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """JupySQL runs a query, and its `%sqlcmd tables` lists the tables."""
    pytest.importorskip("sql.magic", reason="jupysql is not installed")
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE listed (n INT)"))
    shell = interactive.InteractiveShell()
    monkeypatch.setitem(shell.user_ns, "engine", engine)
    shell.run_line_magic("load_ext", "sql")
    shell.run_line_magic("sql", "engine")
    assert "listed" in str(shell.run_line_magic("sqlcmd", "tables"))
    assert "n" in str(shell.run_line_magic("sqlcmd", "columns --table listed"))
