"""What tests of the PostgreSQL protocol share: passwords, and rows of a client."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pyarrow as pa
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


def _plain(value: Any) -> Any:
    """Return a value as Python's clients show it, with intervals as durations."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds // 1_000)
    if isinstance(value, dict):
        return json.loads(json.dumps(value, default=str))
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return "nan" if value != value else value  # noqa: PLR0124 - NaN


def plain_rows(found: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return rows whose values can be compared between clients."""
    return [[_plain(value) for value in row] for row in found]
