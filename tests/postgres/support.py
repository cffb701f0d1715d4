"""What tests of the PostgreSQL protocol share: passwords, and rows of a client."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

PASSWORD = "correct horse"
SECONDS = 60


@dataclass(frozen=True)
class Place:
    """Where a server listens."""

    port: int

    def dsn(self, user: str = "me", password: str = "", **options: str) -> str:
        """Return how libpq connects."""
        given = {"host": "127.0.0.1", "port": str(self.port), "user": user, "dbname": "flightllm", **options}
        if password:
            given["password"] = password
        given.setdefault("connect_timeout", str(SECONDS))
        return psycopg.conninfo.make_conninfo("", **given)

    def connect(self, user: str = "me", password: str = "", **options: str) -> "psycopg.Connection[Any]":
        """Connect with psycopg."""
        return psycopg.connect(self.dsn(user, password, **options), autocommit=True)

    def rows(self, text: str, values: Sequence[Any] = (), user: str = "me", password: str = "") -> list[Any]:
        """Run one query on a connection of its own."""
        with self.connect(user, password) as connection:
            return connection.execute(sql.SQL(text), values).fetchall()
