"""SQLAlchemy 2 through the package sqlalchemy-adbc: Core, and the ORM.

What the dialect itself cannot do is left out: it looks for tables of the type `table` (metadata says `TABLE`), so that
it reflects none, and it sends no bytes.
"""

import datetime as dt
import importlib
from collections.abc import Iterator
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pytest

from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

pytestmark = [
    pytest.mark.skipif(find_spec("sqlalchemy_adbc") is None, reason="sqlalchemy-adbc is not installed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # it leaves cursors open
    pytest.mark.filterwarnings("ignore:.*ADBC:Warning"),
]
BORN = dt.datetime(2024, 1, 2, 3, 4, 5, 600)  # noqa: DTZ001 -- TIMESTAMP has no zone


@pytest.fixture
def alchemy() -> Any:
    """Return the package, of which mypy finds another version in some environments."""
    return importlib.import_module("sqlalchemy")


@pytest.fixture
def orm(alchemy: Any) -> Any:
    """Return its ORM."""
    del alchemy
    return importlib.import_module("sqlalchemy.orm")


@pytest.fixture
def engine(alchemy: Any, server: FlightSqlServer, database: Database) -> Iterator[Any]:
    """Connect to a server with one table."""
    database.session().update("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) AS v(n, x)")
    engine = alchemy.create_engine(f"adbc+flightsql://127.0.0.1:{server.port}?tls=false")
    yield engine
    engine.dispose()


def _tables(alchemy: Any) -> tuple[Any, Any, Any]:
    """Describe two tables with keys of all kinds, and with types of SQLAlchemy's own."""
    metadata, column = alchemy.MetaData(), alchemy.Column
    parents = alchemy.Table(
        "parents",
        metadata,
        column("id", alchemy.Integer, primary_key=True, autoincrement=False),
        column("name", alchemy.Unicode(9), unique=True),
    )
    children = alchemy.Table(
        "children",
        metadata,
        column("id", alchemy.BigInteger, primary_key=True, autoincrement=False),
        column("parent", alchemy.Integer, alchemy.ForeignKey("parents.id", ondelete="CASCADE"), nullable=False),
        column("born", alchemy.DateTime),
        column("price", alchemy.Numeric(10, 2), server_default="0"),
        column("ok", alchemy.Boolean),
        column("day", alchemy.Date),
        alchemy.UniqueConstraint("parent", "born", name="one"),
    )
    return metadata, parents, children


def test_create_and_drop(alchemy: Any, engine: Any, database: Database) -> None:
    """create_all makes tables with their keys, leaves those alone that there are, and drop_all drops them."""
    metadata, _, _ = _tables(alchemy)
    alchemy.Table("blobs", metadata, alchemy.Column("content", alchemy.LargeBinary))
    for _ in range(2):
        metadata.create_all(engine)
    keys = database.session().catalog.table("children").keys
    assert keys.primary is not None
    assert (keys.primary.columns, keys.unique[0].name) == (("id",), "one")
    assert (keys.foreign[0].table.name, keys.foreign[0].on_delete) == ("parents", "CASCADE")
    inspector = alchemy.inspect(engine)
    assert inspector.get_schema_names() == ["public", "system"]
    assert [inspector.has_table(name) for name in ("parents", "children", "nothing")] == [True, True, False]
    shown = {one["name"]: type(one["type"]).__name__ for one in inspector.get_columns("children", "public")}
    assert (shown["id"], shown["born"], shown["price"], shown["day"]) == ("BigInteger", "DateTime", "Numeric", "Date")
    metadata.drop_all(engine)
    assert [info.name.name for info in database.session().catalog.tables() if info.type == "BASE TABLE"] == ["t"]


def test_core(alchemy: Any, engine: Any) -> None:
    """Statements of Core run, with parameters of every kind, and tell how many rows they changed."""
    metadata, parents, children = _tables(alchemy)
    metadata.create_all(engine)
    with engine.begin() as connection:
        assert connection.execute(alchemy.insert(parents).values(id=1, name="Ann")).rowcount == 1
        connection.execute(alchemy.insert(parents), [{"id": 2, "name": "Bob"}, {"id": 3, "name": "Cy"}])
        values = {"id": 10, "parent": 1, "born": BORN, "price": Decimal("1.50"), "ok": True, "day": BORN.date()}
        connection.execute(alchemy.insert(children).values(**values))
        shown = [children.c[name] for name in values]
        assert connection.execute(alchemy.select(*shown)).fetchall() == [tuple(values.values())]
        assert connection.execute(alchemy.update(parents).where(parents.c.id == 3).values(name="Cid")).rowcount == 1
        assert connection.execute(alchemy.delete(parents).where(parents.c.id.in_([2, 9]))).rowcount == 1
        ordered = alchemy.select(parents.c.name).order_by(parents.c.id.desc())
        assert connection.execute(ordered.limit(1).offset(1)).scalars().all() == ["Ann"]
        joined = alchemy.select(parents.c.name, alchemy.func.sum(children.c.price))
        grouped = joined.join(children, children.c.parent == parents.c.id).group_by(parents.c.name)
        assert connection.execute(grouped).fetchall() == [("Ann", Decimal("1.50"))]
        both = alchemy.union_all(alchemy.select(parents.c.id), alchemy.select(children.c.id)).order_by("id")
        assert connection.execute(both).scalars().all() == [1, 3, 10]
    with engine.connect() as connection:
        assert connection.execute(alchemy.text("SELECT n FROM t WHERE n > :least"), {"least": 2}).fetchall() == [(3,)]
        connection.rollback()  # of what was only read
        said = connection.execute(alchemy.text("SELECT ai_gen('Say {x}', x) FROM t WHERE n = 1")).scalar()
        assert len(said) > 0
        with pytest.raises(alchemy.exc.ProgrammingError, match="No field named nope"):
            connection.execute(alchemy.text("SELECT nope FROM t"))


def test_orm(alchemy: Any, orm: Any, engine: Any) -> None:
    """Objects are added, found, followed to others, changed and deleted."""
    metadata, parents, children = _tables(alchemy)
    metadata.create_all(engine)

    class Parent:
        children: list[Any]

    class Child:
        parent: int
        owner: Parent

    mapper = orm.registry()
    mapper.map_imperatively(Parent, parents, properties={"children": orm.relationship(Child, back_populates="owner")})
    mapper.map_imperatively(Child, children, properties={"owner": orm.relationship(Parent, back_populates="children")})

    def made(kind: type, **values: object) -> Any:
        return kind(**values)  # SQLAlchemy gives the class its constructor

    with orm.Session(engine) as session:
        session.add_all([made(Parent, id=1, name="Ann"), made(Parent, id=2, name="Bob")])
        session.flush()
        session.add_all([made(Child, id=10, parent=1, born=BORN), made(Child, id=11, parent=1)])
        session.commit()
    with orm.Session(engine) as session:
        found = session.get(Child, 10)
        assert (found.born, found.price, found.owner.name) == (BORN, Decimal("0.00"), "Ann")
        for loading in (orm.selectinload, orm.joinedload):
            everybody = session.scalars(alchemy.select(Parent).options(loading(Parent.children)).order_by(parents.c.id))
            assert [[child.id for child in one.children] for one in everybody.unique()] == [[10, 11], []]
        found.price = Decimal("2.25")
        session.commit()
        session.refresh(found)
        assert found.price == Decimal("2.25")
        session.delete(session.get(Child, 11))
        session.commit()
        assert session.scalar(alchemy.select(alchemy.func.count()).select_from(Child)) == 1
    mapper.dispose()


def test_pandas(engine: Any) -> None:
    """A frame becomes a table, has rows added, and is read."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    for _ in range(2):
        assert frame.to_sql("frame", engine, index=False, if_exists="append") == 2
    assert len(pandas.read_sql("SELECT a, b FROM frame", engine)) == 4


def test_autocommit(alchemy: Any, server: FlightSqlServer, engine: Any) -> None:
    """A block without a commit fails at its end, and its change stays; with autocommit no block needs a commit."""
    insert, count = alchemy.text("INSERT INTO t VALUES (4, 'd')"), alchemy.text("SELECT count(*) FROM t")
    with pytest.raises(alchemy.exc.DBAPIError, match="ROLLBACK undid nothing"), engine.connect() as connection:
        connection.execute(insert)
    with engine.connect() as connection:
        assert connection.execute(count).scalar() == 4
    address = f"adbc+flightsql://127.0.0.1:{server.port}?tls=false"
    committing = alchemy.create_engine(address, connect_args={"autocommit": True})
    with committing.connect() as connection:
        connection.execute(insert)
    with committing.connect() as connection:
        assert connection.execute(count).scalar() == 5
    committing.dispose()
