"""What tables a text reads: what stands where DataFusion takes it for a table, and nothing else."""

import pytest

from flightllm.sql.expanding import expanded
from flightllm.sql.tokens import tokenize


@pytest.mark.parametrize(
    ("sql", "tables", "parts"),
    [
        ("SELECT v.a, v FROM v", {"v": 1}, 1),
        ("FROM v", {"v": 1}, 1),
        ("SELECT DISTINCT FROM v", {"v": 1}, 1),
        ("SELECT a IS NOT DISTINCT FROM v, extract(year FROM w) FROM t", {"t": 1}, 1),
        ("SELECT f(v, w) FROM public.v AS x (a, w), flightllm.public.\"W\" y, 'u' z", {"v": 1, "W": 1, "u": 1}, 1),
        (
            "SELECT 1 FROM (v JOIN ((w)) ON v.a IN (w, 1), u), LATERAL (SELECT 1 FROM t)",
            {"v": 1, "w": 1, "u": 1, "t": 1},
            1,
        ),
        ("SELECT 1 FROM f(v, w), unnest(u), t WHERE a IN (v, w) GROUP BY v, w", {"t": 1}, 1),
        ("SELECT 1 FROM offset a, t AS window, u", {"offset": 1, "t": 1, "u": 1}, 1),
        ("SELECT 1 FROM t JOIN s ON t.where = s.group, u ORDER BY v, w", {"t": 1, "s": 1, "u": 1}, 1),
        ("SELECT (SELECT 1 FROM v), w FROM t UNION ALL FROM v |> WHERE a |> UNION ALL (FROM v)", {"v": 3, "t": 1}, 1),
        ("WITH v AS (SELECT * FROM v, v) SELECT 1 FROM v x, v y, public.v", {"v": 5}, 3),
        ("WITH v AS (FROM t), w AS (FROM v, v) SELECT 1 FROM w, v", {"t": 3}, 5),
        ("WITH v AS (FROM t) SELECT 1", {"t": 0}, 1),
        ("SELECT 1 FROM (WITH v AS (FROM t) SELECT 1 FROM v), v", {"t": 1, "v": 1}, 2),
        ("WITH RECURSIVE v AS (FROM t UNION ALL SELECT 1 FROM v) SELECT 1 FROM v", {"t": 1}, 3),
        ("VALUES (1, 2), ((SELECT 1 FROM v), w)", {"v": 1}, 1),
        ("SELECT 1 FROM (VALUES (1, v), (2, w)) AS x (v, w), t", {"t": 1}, 1),
    ],
)
def test_tables_that_are_read(sql: str, tables: dict[str, int], parts: int) -> None:
    """Names, times and parts, WITH queries in their places and hiding tables only where they are known."""
    found = expanded(tokenize(sql))
    assert ({name.name: times for name, times in found.tables.items()}, found.parts) == (tables, parts)
