"""The table that the functions read, and how a value is compared with the vendor's."""

from datetime import UTC, datetime
from decimal import Decimal
from math import isinf
from typing import Any, Final

COLUMNS: Final = (
    "'Hello World' AS s, ' a b ' AS sp, 'a,b,,c' AS csv, 'o' AS o, 'a1b22c333' AS code, '2024-03-15' AS dt,"
    " '42.57' AS num, 'true' AS yes, 'abc' AS bad, 7 AS i, -3 AS j, 2 AS k,"
    " CAST(2.5 AS DOUBLE) AS f, CAST(-1.7 AS DOUBLE) AS g,"
    " CAST(12.345 AS DECIMAL(10, 3)) AS dc, DATE '2024-03-15' AS d, DATE '2024-01-31' AS e,"
    " TIMESTAMP '2024-03-15 13:45:30' AS ts, TIMESTAMP '2024-03-14 12:00:00' AS tu, true AS b, false AS c"
)
"""The one row with values; each column has a type, and a second row has NULL in all columns."""
CREATE: Final = (
    f"CREATE TABLE typed AS WITH one AS (SELECT 1 AS id, {COLUMNS})"
    " SELECT * FROM one UNION ALL SELECT o.* FROM (SELECT 2 AS key) AS q LEFT JOIN one AS o ON o.id = q.key"
)
NUMBERS: Final = (
    "CREATE TABLE many AS SELECT * FROM (VALUES (1, 'x', 10.5::double, true, DATE '2024-01-01'),"
    " (2, 'y', 20.0::double, false, DATE '2024-01-05'), (2, 'x', NULL, NULL, NULL),"
    " (4, NULL, 1.5::double, true, DATE '2024-02-01')) AS v(n, w, x, p, day)"
)
"""The rows that aggregates read."""


def is_same(found: Any, expected: Any) -> bool:
    """Return whether a value is the vendor's: numbers by their value, other values also by their type."""
    if isinstance(found, datetime):
        in_utc = found.astimezone(UTC) if found.tzinfo is not None else found
        found = datetime.fromisoformat(in_utc.replace(tzinfo=None).isoformat()[:26])
    if isinstance(expected, dict):
        named = isinstance(found, dict) and list(found) == list(expected)
        return named and all(is_same(found[name], one) for name, one in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(expected, bool) or expected is None or not isinstance(expected, int | float | Decimal):
        return type(found) is type(expected) and bool(found == expected)
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
        return False
    if isinf(expected):
        return bool(found == expected)
    return abs(float(found) - float(expected)) <= 1e-6 * max(1.0, abs(float(expected)))
