"""Arrays have PostgreSQL's order: a NULL element is the greatest one."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows

LISTS = "(VALUES (1, [2, NULL]), (2, [2, 5]), (3, [2]), (4, CAST(NULL AS INT[])), (5, [3])) v(n, l)"


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with a table of arrays."""
    session.update(f"CREATE TABLE listed AS SELECT * FROM {LISTS}")
    session.update("CREATE VIEW seen AS SELECT n, l AS m FROM listed")
    return session


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("l < ARRAY[2, 5]", [3]),
        ("l <= '{2,5}'", [2, 3]),
        ("NOT l >= ARRAY[2, 5]", [3]),
        ("l BETWEEN [2, 5] AND [2, NULL]", [1, 2]),
        ("l > ALL (SELECT l FROM listed WHERE n = 2)", [1, 5]),
        ("l = (SELECT max(l) FROM listed WHERE n < 4)", [1]),
        ("least(l, [2, 5]) < [2, 5]", [3]),
        ("n IN (SELECT n FROM (SELECT n, l = max(l) OVER () AS m FROM listed) q WHERE m)", [5]),
        ("greatest(l, [2, 5]) = [2, 5]", [2, 3, 4]),
        ("(n % 1, l) > (0, [2, 5])", [1, 5]),
    ],
)
def test_conditions(session: Session, condition: str, wanted: list[int]) -> None:
    """Each comparison holds for PostgreSQL's rows."""
    assert [row["n"] for row in rows(session, f"SELECT n FROM listed WHERE {condition} ORDER BY n")] == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM listed ORDER BY l",
        "SELECT n FROM seen ORDER BY m, n",
        "SELECT n FROM (SELECT * FROM (SELECT l, n FROM listed) q ORDER BY 1) r",
        "SELECT n FROM (SELECT n, row_number() OVER (ORDER BY l) AS k FROM listed) q ORDER BY k",
        "SELECT unnest(array_agg(n ORDER BY l)) AS n FROM listed",
        "SELECT DISTINCT ON (l) n FROM listed ORDER BY l, n",
    ],
)
def test_orders(session: Session, sql: str) -> None:
    """Each clause puts a NULL element last, and then the array that is NULL."""
    assert [row["n"] for row in rows(session, sql)] == [3, 2, 1, 5, 4]


@pytest.mark.parametrize(
    ("less", "greater"),
    [
        ("[1.5]", "[1.5, NULL]"),
        ("['a', 'b']", "['a', NULL]"),
        ("[true]", "[NULL]"),
        ("[DATE '2024-01-01', NULL]", "[DATE '2024-01-02']"),
        ("[CAST('NaN' AS DOUBLE)]", "[CAST(NULL AS DOUBLE)]"),
        ("[TIMESTAMP '2024-01-01']", "[CAST(NULL AS TIMESTAMP)]"),
        ("[[1, 2], [3, 4]]", "[[1, 2], [3, NULL]]"),
    ],
)
def test_elements(session: Session, less: str, greater: str) -> None:
    """Elements of each type have an order."""
    assert rows(session, f"SELECT {less} < {greater} AS a, {less} >= {greater} AS b") == [{"a": True, "b": False}]


def test_changes_of_rows(session: Session) -> None:
    """DELETE and UPDATE change PostgreSQL's rows."""
    session.update("CREATE TABLE changed AS SELECT * FROM listed")
    assert session.update("DELETE FROM changed WHERE l < ARRAY[2, 5]") == 1
    assert session.update("UPDATE changed SET n = 9 WHERE l > ARRAY[2, 5]") == 2
    assert [row["n"] for row in rows(session, "SELECT n FROM changed ORDER BY n")] == [2, 4, 9, 9]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "max(l) OVER (ORDER BY n)",
            r"OVER with an order, a frame or FILTER at 1:8 orders arrays.*write first_value",
        ),
        ("l < ANY (array_agg(l) OVER ())", "ANY and ALL over a list at 1:8 orders arrays"),
        ("[INTERVAL '1 day'] < [INTERVAL '1 day']", "the arrays at 1:18 have no order: compare their elements"),
    ],
)
def test_refused(session: Session, value: str, said: str) -> None:
    """What has no such form is refused with its place."""
    with pytest.raises(UnsupportedError, match=said):
        ask(session, f"SELECT {value} FROM listed")


@pytest.mark.parametrize("condition", ["l > ARRAY[2]", "ARRAY[n::text] > ARRAY['2']", "ARRAY[n * 0.5] > ARRAY[0.7]"])
def test_beside_a_model(session: Session, condition: str) -> None:
    """A comparison with a constant array has the same rows beside an AI call."""
    wanted = rows(session, f"SELECT n FROM listed WHERE {condition} ORDER BY n")
    beside = f"SELECT n FROM listed WHERE {condition} AND ai_filter('x', n::text) IS NOT NULL ORDER BY n"
    assert wanted
    assert rows(session, beside) == wanted
