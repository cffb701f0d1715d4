"""Each function that takes a whole number takes SMALLINT too, which psycopg sends for small numbers."""

from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

from tests.postgres.support import Place, plain_rows

FORMS: Final = (
    "left(t, {})",
    "left(t, -{})",
    "right(t, {})",
    "right(t, -{})",
    "repeat(t, {})",
    "lpad(t, {})",
    "lpad(t, {}, 'xy')",
    "rpad(t, {})",
    "rpad(t, {}, 'xy')",
    "split_part(t, 'c', {})",
    "split_part(t, 'c', -{})",
    "substr(t, {})",
    "substr(t, {}, {})",
    "substr(t, 2, {})",
    "substring(t, {})",
    "substring(t, {}, {})",
    "substring(t FROM {})",
    "substring(t FROM {} FOR {})",
    "substring(t FOR {})",
    "overlay(t PLACING 'zz' FROM {})",
    "overlay(t PLACING 'zz' FROM {} FOR {})",
    "overlay(t PLACING 'zz' FROM 1 FOR {})",
    "chr({} + 64)",
    "strpos(t, {}::text)",
    "concat(t, {})",
    "concat_ws('-', t, {}, {})",
    "t || {}",
    "format('%%s', {})",
    "regexp_count(t, 'b', {})",
    "regexp_instr(t, 'b', {})",
    "regexp_instr(t, 'b', {}, 1)",
    "xs[{}]",
    "xs[{}:{}]",
    "xs[1:{}]",
    "(ARRAY[1, 2, 3])[{}]",
    "array_length(xs, 1) + {}",
    "array_append(xs, {})",
    "array_prepend({}, xs)",
    "array_remove(xs, {})",
    "array_replace(xs, 20, {})",
    "{} = ANY(xs)",
    "cardinality(xs) - {}",
    "round(n, {})",
    "round(n, -{})",
    "trunc(n, {})",
    "mod(7, {})",
    "gcd(6, {})",
    "lcm(6, {})",
    "make_date(2024, {}, {})",
    "date '2024-01-01' + {}",
    "date '2024-01-01' - {}",
    "interval '1 day' * {}",
    "1 << {}",
    "255 >> {}",
    "t::varchar(3) || left(t, {})",
    "CASE {} WHEN 2 THEN 'two' ELSE 'other' END",
)
"""Expressions that the server and PostgreSQL have; `{}` is a small number."""
WINDOWS: Final = (
    "lag(t, {}) OVER (ORDER BY t)",
    "lead(t, {}, 'none') OVER (ORDER BY t)",
    "ntile({}) OVER (ORDER BY t)",
    "nth_value(t, {}) OVER (ORDER BY t)",
)
"""Here these take constants only."""
QUERIES: Final = (
    ("SELECT t FROM small_numbers ORDER BY t LIMIT %s", 2),
    ("SELECT t FROM small_numbers ORDER BY t OFFSET %s", 2),
    ("SELECT t FROM small_numbers ORDER BY t LIMIT %s OFFSET %s", 1),
    ("SELECT t FROM small_numbers ORDER BY t FETCH FIRST %s ROWS ONLY", 2),
    ("SELECT * FROM generate_series(1, %s)", 3),
    ("SELECT * FROM generate_series(1, 70001, %s)", 70_000),
    ("SELECT x FROM small_numbers, generate_series(1, %s) AS g(x) ORDER BY x", 2),
    ("SELECT k FROM small_numbers WHERE k IN (%s, 3) ORDER BY k", 2),
)
"""Queries with small numbers outside of expressions, and the number."""


@pytest.fixture(scope="module")
def cursors(place: Place, reference: "psycopg.Connection[Any]") -> Iterator[tuple[Any, Any]]:
    """Return cursors of this server and of PostgreSQL, over the same table with a SMALLINT column."""
    with place.connect() as connection:
        cursors = connection.cursor(), reference.cursor()
        for cursor in cursors:
            cursor.execute("CREATE TABLE small_numbers (t text, k smallint, n numeric(20, 4), xs int[])")
            cursor.execute(
                "INSERT INTO small_numbers VALUES ('abcbd', 2, 12.3456, ARRAY[10, 20, 30]), ('xy', 1, 7, ARRAY[5]),"
                " ('', 3, NULL, NULL), ('q', NULL, 1, ARRAY[]::int[])"
            )
        yield cursors
        cursors[0].execute("DROP TABLE small_numbers")


def _columns(cursor: Any, forms: tuple[str, ...], written: str, values: list[int] | None) -> dict[str, list[Any]]:
    """Return the values of each form over all rows, which one query computes."""
    items = ", ".join(f"{form.replace('{}', written)} AS c{place}" for place, form in enumerate(forms))
    items = items if values is not None else items.replace("%%", "%")
    rows = plain_rows(cursor.execute(f"SELECT {items} FROM small_numbers ORDER BY t", values).fetchall())
    return dict(zip(forms, map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("value", [2, 1])
def test_parameters(cursors: tuple[Any, Any], value: int) -> None:
    """A parameter that psycopg sends as SMALLINT gives PostgreSQL's values."""
    forms = (*FORMS, *WINDOWS)
    values = [value] * "".join(forms).count("{}")
    ours, theirs = (_columns(cursor, forms, "%s", values) for cursor in cursors)
    assert ours == theirs


def test_columns(cursors: tuple[Any, Any]) -> None:
    """So does a SMALLINT column with NULL."""
    ours, theirs = (_columns(cursor, FORMS, "k", None) for cursor in cursors)
    assert ours == theirs


@pytest.mark.parametrize(("sql", "value"), QUERIES)
def test_queries(cursors: tuple[Any, Any], sql: str, value: int) -> None:
    """LIMIT, OFFSET and series take such parameters too."""
    values = [value] * sql.count("%s")
    ours, theirs = (plain_rows(cursor.execute(sql, values).fetchall()) for cursor in cursors)
    assert ours == theirs
