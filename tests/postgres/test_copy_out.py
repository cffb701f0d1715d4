"""COPY TO STDOUT sends the bytes of PostgreSQL."""

import psycopg

from tests.postgres.support import Place

QUERIES = (
    "SELECT oid, typname, typarray, typlen FROM pg_type WHERE typname IN ('int4', 'bool', 'name') ORDER BY oid",
    "SELECT oid::regtype::text, typelem FROM pg_type WHERE typname = '_text'",
    "SELECT NULL::int4 AS a, 12::int2 AS b, true AS c, 'x'::text AS d",
)


def _copied(connection: "psycopg.Connection[object]", sql: str, how: str) -> bytes:
    with connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT {how}") as copy:
        return b"".join(map(bytes, copy))


def test_bytes(place: Place, reference: "psycopg.Connection[object]") -> None:
    """An oid has four bytes in binary form; texts are equal too."""
    with place.connect() as ours:
        for sql in QUERIES:
            for how in ("", "(FORMAT binary)", "(FORMAT csv, HEADER)"):
                assert _copied(ours, sql, how) == _copied(reference, sql, how), (sql, how)
