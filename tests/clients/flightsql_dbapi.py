"""What the package flightsql-dbapi asks of a server, its DB-API first, then SQLAlchemy below 2 on top of it.

    python flightsql_dbapi.py PORT

runs in an environment of its own, which `test_flightsql_dbapi.py` makes, against a server with a table `t`.
"""

import importlib
import sys
import warnings
from typing import Any

FEATURES = "&feature-sqlalchemy-prepared-statements=on&feature-sqlalchemy-primary-keys=on"


def check_dbapi(client: Any, connection: Any) -> None:
    """Run queries, parameters (sent as a union of types), updates and metadata."""
    cursor = connection.cursor()
    assert cursor.execute("SELECT n, x FROM t ORDER BY n").fetchall()[0] == [1, "a"]
    assert cursor.execute("SELECT ? + 1, ?, ?, ?", [1, "x", 1.5, True]).fetchall() == [[2, "x", 1.5, True]]
    assert client.execute_update("INSERT INTO t VALUES (3, 'c')") == 1
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == [3]
    assert connection.flightsql_get_sql_info([0, 504]) == {0: "FlightLLM", 504: '"'}
    assert connection.flightsql_get_table_names("public") == ["t"]
    assert connection.flightsql_get_primary_keys("t") == []
    try:
        cursor.execute("SELECT nope FROM t")
    except Exception as error:  # noqa: BLE001 -- whatever the package raises
        assert "No field named nope" in str(error)  # noqa: PT017 -- there is no pytest here
    else:
        raise AssertionError("a wrong query fails")


def check_queries(alchemy: Any, engine: Any) -> None:
    """Select with parameters, reflect a table, and call the model."""
    text = alchemy.text
    with engine.connect() as connection:
        assert connection.execute(text("SELECT n FROM t WHERE n > :least"), {"least": 2}).fetchall() == [(3,)]
        table = alchemy.Table("t", alchemy.MetaData(), autoload_with=engine, schema="public")
        query = alchemy.select(table.c.x).where(table.c.n == 1)
        assert connection.execute(query).fetchall() == [("a",)]
        answers = connection.execute(text("SELECT ai_gen('Say {x}', x) FROM t WHERE n = 1")).fetchall()
        assert len(answers[0][0]) > 0
    inspector = alchemy.inspect(engine)
    assert inspector.get_schema_names() == ["public", "system"]
    shown = [(column["name"], str(column["type"])) for column in inspector.get_columns("t", "public")]
    assert shown == [("n", "BIGINT"), ("x", "TEXT")]


def check_keys(alchemy: Any, engine: Any) -> None:
    """Make a table with keys of all kinds and types of SQLAlchemy's own, reflect its key, and drop it."""
    metadata, column = alchemy.MetaData(), alchemy.Column
    alchemy.Table("parents", metadata, column("id", alchemy.Integer, primary_key=True))
    children = alchemy.Table(
        "children",
        metadata,
        column("id", alchemy.BigInteger, primary_key=True),
        column("parent", alchemy.Integer, alchemy.ForeignKey("parents.id", ondelete="CASCADE"), nullable=False),
        column("born", alchemy.DateTime),
        column("blob", alchemy.LargeBinary),
        column("price", alchemy.Numeric(10, 2), server_default="0"),
        alchemy.UniqueConstraint("parent", "born", name="one"),
    )
    metadata.create_all(engine, checkfirst=False)
    assert alchemy.inspect(engine).get_pk_constraint("children", "public")["constrained_columns"] == ["id"]
    children.drop(engine, checkfirst=False)
    assert "children" not in alchemy.inspect(engine).get_table_names("public")


def main(port: str) -> None:
    """Check everything."""
    warnings.simplefilter("ignore")  # the package is older than its dependencies
    flightsql, alchemy = importlib.import_module("flightsql"), importlib.import_module("sqlalchemy")
    importlib.import_module("flightsql.sqlalchemy")
    client = flightsql.FlightSQLClient(host="127.0.0.1", port=int(port), user="u", password="p", insecure=True)
    check_dbapi(client, flightsql.connect(client))
    client.close()
    engine = alchemy.create_engine(f"datafusion+flightsql://u:p@127.0.0.1:{port}?insecure=True{FEATURES}")
    check_queries(alchemy, engine)
    check_keys(alchemy, engine)
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1])
