"""A column of jsonb reaches clients of PostgreSQL with its type, in the form of texts and in the binary form."""

import pytest

pytest.importorskip("psycopg", reason="the extra 'test' is not installed")

from tests.postgres.support import Place


@pytest.mark.parametrize("binary", [False, True])
def test_columns(place: Place, binary: bool) -> None:
    """Psycopg reads a stored jsonb and json as values."""
    with place.connect() as connection:
        connection.execute("CREATE OR REPLACE TABLE docs (j jsonb, k json)")
        connection.execute("""INSERT INTO docs VALUES ('{"b": 1, "a": [null]}', '[1, "x"]'), (NULL, NULL)""")
        with connection.cursor(binary=binary) as cursor:
            cursor.execute("SELECT j, k, j::text FROM docs ORDER BY k NULLS LAST")
            assert cursor.fetchall() == [({"a": [None], "b": 1}, [1, "x"], '{"a": [null], "b": 1}'), (None, None, None)]
