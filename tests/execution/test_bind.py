"""Outer joins, which DataFusion by itself gets wrong, have settings that make them right."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_filters_on_both_sides_of_an_outer_join(
    session: Session, kind: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataFusion by itself pushes one filter to the wrong side where columns of the sides share name and place."""
    monkeypatch.setattr("flightllm.datafusion.contexts._cores", lambda: cores)
    left = "(SELECT 1 AS k, 1 AS n UNION ALL SELECT NULL, 2 UNION ALL SELECT 5, 2)"
    right = "(SELECT 2 AS k, 1 AS m, 'q' AS y UNION ALL SELECT NULL, 2, NULL UNION ALL SELECT 7, 2, 's')"
    sql = f"SELECT u.k AS a, v.k AS b, v.y FROM {left} u {kind} JOIN {right} v ON u.n = v.m"
    joined = ask(session, sql).rows
    filtered = ask(session, f"{sql} WHERE coalesce(u.k, 0) < 3 AND v.y IS NOT NULL").rows
    expected = [row for row in joined if (row["a"] or 0) < 3 and row["y"] is not None]
    assert sorted(map(repr, filtered)) == sorted(map(repr, expected))
    asking = sql.replace("v.y FROM", "ai_gen('Say', v.y) AS y FROM") + " WHERE coalesce(u.k, 0) < 3 AND v.y IS NOT NULL"
    for optimizer in ("on", "off"):
        places = [(row["a"], row["b"]) for row in ask(session, asking, optimizer=optimizer).rows]
        assert sorted(map(repr, places)) == sorted(repr((row["a"], row["b"])) for row in expected)


def test_further_conditions_of_a_full_join(session: Session) -> None:
    """DataFusion's sort-merge join forgets a column that only the condition reads; such joins are hashed."""
    rows = "(SELECT 5 AS x, 1 AS y UNION ALL SELECT 1, 2 UNION ALL SELECT 2, 1)"
    sql = f"SELECT b.y, count(a.y) AS n FROM {rows} a FULL JOIN {rows} b ON a.y = b.y AND a.x <> 2 GROUP BY 1"
    found = {row["y"]: row["n"] for row in ask(session, sql).rows}
    assert found == {1: 2, 2: 1, None: 1}
