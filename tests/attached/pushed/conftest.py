"""Two sources with the same two tables, and local copies of the tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database
from tests.postgres import binaries, cluster

COLUMNS = "i bigint, f double precision, s {text}, z numeric(12, 2), d date, b boolean, m {other}"
T = """(1, 0.5, 'a', 1.10, '2020-02-29', true, 'x'), (2, -1.25, 'B', -2.25, NULL, false, 'y'),
    (-7, NULL, '_x', NULL, '1969-12-31', NULL, NULL), (NULL, 0, '', 0.01, '2024-01-01', true, 'x'),
    (0, 3, NULL, 99.99, '2020-02-29', false, 'y'), (5, 1e10, 'O''k%', 1.10, NULL, NULL, NULL),
    (2, 2.5, 'ä', 0, '1969-12-31', true, 'x'), (205891132094649, 0.1, 'a%', 7.77, '2024-01-01', false, '''')"""
U = """(-7, NULL, '_x', NULL, '1969-12-31', NULL, NULL), (NULL, 0, '', 0.01, '2024-01-01', true, 'x'),
    (0, 3, NULL, 99.99, '2020-02-29', false, 'y'), (5, 1e10, 'O''k%', 1.10, NULL, NULL, NULL),
    (2, 2.5, 'ä', 0, '1969-12-31', true, 'x')"""


@dataclass(frozen=True)
class Sources:
    """A server with the databases `pg` and `dd` attached, and a connection to the PostgreSQL itself."""

    database: Database
    connection: Any

    @property
    def session(self) -> Session:
        """Return a new session."""
        return self.database.session()


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """Return the sources.

    The collation of PostgreSQL's texts finds `A` and `a` equal, and orders both before `B`. The schema `plain` has the
    tables with texts in the order of their code points.
    """
    pytest.importorskip("adbc_driver_postgresql")
    if binaries() is None:
        pytest.skip("no PostgreSQL here")
    import duckdb
    import psycopg

    folder = tmp_path_factory.mktemp("pushed")
    types = {"text": "text COLLATE loose", "other": "mood"}
    with cluster() as server:
        address = f"host={server.folder} user={server.user} dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA plain")
            connection.execute("CREATE TYPE mood AS ENUM ('y', 'x', '''')")
            connection.execute(
                "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
            for name, values in {"t": T, "u": U}.items():
                connection.execute(
                    f"CREATE TABLE {name} ({COLUMNS.format(**types)}); INSERT INTO {name} VALUES {values}"
                )
                plain = COLUMNS.format(text='text COLLATE "C"', other="text")
                connection.execute(f"CREATE TABLE plain.{name} ({plain}); INSERT INTO plain.{name} VALUES {values}")
            connection.execute("ANALYZE")
            with duckdb.connect(str(folder / "shop.duckdb")) as file:
                for name, values in {"t": T, "u": U}.items():
                    file.execute(f"CREATE TABLE {name} ({COLUMNS.format(text='text', other='text')})")
                    file.execute(f"INSERT INTO {name} VALUES {values}")
            database = open_database(folder)
            database.access.store.add_user(User("ann", "user"))
            session = database.session()
            session.update(f"ATTACH '{address}' AS pg (TYPE postgres)")
            session.update(f"ATTACH '{Path(folder / 'shop.duckdb')}' AS dd (TYPE duckdb)")
            for name in "tu":
                session.update(f"CREATE TABLE {name} AS SELECT * FROM dd.{name}")
            yield Sources(database, connection)
            database.close()
