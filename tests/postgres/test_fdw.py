"""PostgreSQL reads and changes this server's tables through its foreign data wrapper."""

from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.postgres.support import Place


def test_foreign_tables(place: Place, reference: "psycopg.Connection[Any]") -> None:
    """`postgres_fdw` imports a schema, and sends queries and changes."""
    try:
        reference.execute("CREATE EXTENSION postgres_fdw")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("PostgreSQL is installed without its extensions")
    with place.connect() as connection:
        connection.execute("CREATE OR REPLACE TABLE far (id int, name text, day date, price numeric(10, 2))")
        connection.execute("INSERT INTO far VALUES (1, 'a', '2020-01-02', 1.5), (2, 'b', NULL, 2.5)")
    where = f"host '127.0.0.1', port '{place.port}', dbname 'flightllm'"
    try:
        for text in (
            f"CREATE SERVER near FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({where})",
            "CREATE USER MAPPING FOR CURRENT_USER SERVER near OPTIONS (user 'me')",
            "IMPORT FOREIGN SCHEMA public LIMIT TO (far) FROM SERVER near INTO public",
            "SET statement_timeout = '30s'",
            "INSERT INTO far VALUES (3, 'c', NULL, NULL)",
            "UPDATE far SET name = 'z' WHERE id = 3",
        ):
            reference.execute(text.encode())
        rows = [(1, "a", date(2020, 1, 2), Decimal("1.50")), (2, "b", None, Decimal("2.50")), (3, "z", None, None)]
        assert reference.execute("SELECT * FROM far ORDER BY id").fetchall() == rows
        assert reference.execute("SELECT upper(name) FROM far WHERE day = '2020-01-02'").fetchall() == [("A",)]
    finally:
        reference.execute("RESET statement_timeout")
        reference.execute("DROP EXTENSION postgres_fdw CASCADE")
