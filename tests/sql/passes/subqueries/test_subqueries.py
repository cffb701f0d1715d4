"""Subqueries have PostgreSQL's rows wherever they stand, and those that DataFusion plans rightly stay as they are."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError, UnsupportedError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.subqueries import subqueries
from flightllm.sql.query_columns import Known
from flightllm.sql.tree import parse
from tests.databases import ask

TABLES = {"a": ("x", "g"), "b": ("y", "g")}

DEEPER = "EXISTS (SELECT 1 FROM a i WHERE i.x = m.x AND i.g > o.g)"


def columns_of(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
    """Return the columns of the tables a and b."""
    return dict.fromkeys(TABLES.get(parts[-1], ()), pa.int64())


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session over a (x, g) and b (y, g) with NULLs."""
    for statement in (
        "CREATE TABLE a (x int, g int)",
        "INSERT INTO a VALUES (1, 1), (2, 1), (2, 2), (NULL, 1), (4, NULL), (5, 3)",
        "CREATE TABLE b (y int, g int)",
        "INSERT INTO b VALUES (1, 1), (NULL, 1), (2, 2), (3, 3), (6, NULL)",
        "CREATE TABLE pets (name text, note text)",
        "INSERT INTO pets VALUES ('cat', 'calm'), ('dog', 'loud')",
    ):
        session.update(statement)
    return session


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query."""
    return [tuple(row.values()) for row in ask(session, sql).rows]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM a WHERE x IN (SELECT y FROM b)",
        "SELECT x FROM a WHERE x > 1 AND x NOT IN (SELECT y FROM b WHERE g = 1)",
        "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g)",
        "SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.y < a.x) OR x = 1",
        "SELECT x, (SELECT max(y) FROM b WHERE b.g = a.g) FROM a",
        "SELECT x, (SELECT max(y) FROM b) FROM a ORDER BY (SELECT 1)",
        "SELECT x FROM a WHERE x > (SELECT count(*) FROM b WHERE b.g = a.g)",
        "WITH w AS (SELECT 1 AS k) SELECT k FROM (SELECT k FROM w) i",
    ],
)
def test_a_text_that_datafusion_plans_rightly_stays(sql: str) -> None:
    """The pass returns the same tree."""
    tree = parse(ParsedText(sql))
    assert tree is not None
    assert subqueries(tree, columns_of) is tree


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT x FROM a WHERE x < 3", False),
        ("SELECT x FROM (SELECT x FROM a) i JOIN (SELECT 1) j ON true", False),
        ("SELECT x FROM a UNION ALL (SELECT y FROM b)", True),
        ("SELECT x FROM a WHERE x <> ALL (SELECT y FROM b)", True),
        ("SELECT (SELECT 1)", True),
        ("SELECT x IN (VALUES (1)) FROM a", True),
    ],
)
def test_only_a_text_with_a_query_in_an_expression_is_parsed(sql: str, *, wanted: bool) -> None:
    """`ALL (` can begin a comparison or a set operation."""
    assert ParsedText(sql).has_subquery() is wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT x FROM a WHERE x = ANY (SELECT x FROM a WHERE x < 2)", [(1,)]),
        ("SELECT x FROM a WHERE NOT EXISTS (SELECT count(*) FROM b WHERE b.g = a.g)", []),
        ("SELECT x FROM a WHERE x NOT IN (SELECT y FROM b) OR x > 4", [(5,)]),
        ("SELECT x FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g = a.g)", [(4,), (5,)]),
        ("SELECT x, x IN (SELECT y FROM b) FROM a WHERE g = 1", [(1, True), (2, True), (None, None)]),
        ("SELECT x, x >= ALL (SELECT y FROM b WHERE b.g = a.g) FROM a", None),
        ("SELECT x FROM a WHERE x > (SELECT y FROM b WHERE b.g = a.g ORDER BY y DESC LIMIT 1)", [(5,)]),
        ("SELECT x FROM a WHERE (x, g) IN (SELECT y, g FROM b)", [(1,), (2,)]),
        ("SELECT g, count(*) FROM a GROUP BY g HAVING EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND y > 2)", [(3, 1)]),
        ("SELECT sum((SELECT count(*) FROM b WHERE b.g = a.g)) FROM a", [(8,)]),
        (f"SELECT x FROM a o WHERE EXISTS (SELECT 1 FROM a m WHERE m.g = o.g AND {DEEPER})", [(1,), (2,), (None,)]),
        ("SELECT * FROM a WHERE (SELECT g FROM b WHERE b.y = a.x) = 1", [(1, 1)]),
        ("SELECT x FROM a WHERE x = (SELECT sum(y) FROM b WHERE b.y < a.x AND b.g > 5)", []),
        ("SELECT a.x FROM a WHERE a.g = (SELECT max(a.g) FROM b a WHERE a.y < 3) AND a.x < 9", [(2,)]),
        ("SELECT EXISTS (SELECT 1 FROM b WHERE b.g > a.g) AS e, count(*) FROM a GROUP BY e", [(True, 4), (False, 2)]),
        ("SELECT x FROM a WHERE g = 3 AND 5 IN (SELECT unnest(make_array(a.x)))", [(5,)]),
        ("SELECT g.x FROM (SELECT 7 AS x) g WHERE EXISTS (SELECT 1 FROM a WHERE g.x > a.x AND a.g > 2)", [(7,)]),
        ("SELECT * FROM (VALUES ((SELECT max(x) FROM a), 1), (2, 3)) v(p, q)", [(5, 1), (2, 3)]),
        ("SELECT x, l.* FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g ORDER BY y LIMIT 1) l WHERE x = 5", [(5, 3)]),
    ],
)  # fmt: skip
def test_rows_are_those_of_postgresql(session: Session, sql: str, wanted: list[tuple[object, ...]] | None) -> None:
    """NULLs, empty queries, groups, limits and two levels give the rows that PostgreSQL 15 gave."""
    found = rows(session, sql)
    if wanted is None:
        wanted = [(1, None), (2, None), (2, True), (None, None), (4, True), (5, True)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_names_of_columns_stay(session: Session) -> None:
    """A star has no column of a join, and an expression keeps its text as name."""
    asked = "EXISTS (SELECT 1 FROM b WHERE b.g = a.g)"
    assert list(ask(session, f"SELECT *, {asked} FROM a").rows[0]) == ["x", "g", asked]


def test_several_rows_are_an_error_only_where_the_value_is_read(session: Session) -> None:
    """Group 1 has two rows in b."""
    sql = "SELECT x, (SELECT y FROM b WHERE b.g = a.g) FROM a"
    with pytest.raises(FlightLLMError, match="more than one row returned by a subquery used as an expression"):
        rows(session, sql)
    assert rows(session, f"{sql} WHERE g = 2") == [(2, 2)]


def test_changes_of_rows_have_no_joins_in_their_own_text(session: Session) -> None:
    """The query of the rows to change gets the joins."""
    session.update("CREATE TABLE copied AS SELECT x, g FROM a")
    assert session.update("DELETE FROM copied WHERE x = ANY (SELECT x FROM copied WHERE x < 2)") == 1
    assert session.update("UPDATE copied SET x = (SELECT y FROM b WHERE b.g = copied.g LIMIT 1) WHERE g = 3") == 1
    assert rows(session, "SELECT x FROM copied WHERE g = 3") == [(3,)]


def test_calls_of_a_model_run_once_for_each_row(session: Session) -> None:
    """A call in WHERE is not in the copy of the tables that a subquery reads."""
    sql = "SELECT name FROM pets WHERE ai_filter('{note} is calm', note => note)"
    sql += " AND name < ANY (SELECT i.name FROM pets i WHERE i.note <> pets.note)"
    found = ask(session, sql, cache="off")
    assert found.calls <= 2
    assert {row["name"] for row in found.rows} <= {"cat"}


def test_an_error_tells_the_place(session: Session) -> None:
    """The error comes before the query runs."""
    sql = "SELECT x FROM a LEFT JOIN b ON\n a.g = b.g AND EXISTS (SELECT 1 FROM b i WHERE i.y = a.x AND i.g < b.y)"
    with pytest.raises(UnsupportedError, match="the subquery at 2:"):
        rows(session, sql)


def test_an_aggregate_of_outer_columns_is_refused(session: Session) -> None:
    """PostgreSQL computes it over the rows of the outer query."""
    with pytest.raises(UnsupportedError, match=r"1:19 reads a column .* an aggregate that reads only such columns"):
        rows(session, "SELECT x, (SELECT sum(a.x)) FROM a GROUP BY x")


def test_a_set_of_rows_from_one_select_can_be_several(session: Session) -> None:
    """`unnest` without FROM has as many rows as its list has elements."""
    with pytest.raises(FlightLLMError, match="more than one row returned"):
        rows(session, "SELECT x, (SELECT unnest(make_array(a.x, a.g))) FROM a WHERE x = 1")
    assert rows(session, "SELECT x, (SELECT unnest(make_array(a.x))) FROM a WHERE x = 1") == [(1, 1)]


def test_keys_of_bytes(session: Session) -> None:
    """Bytes that are no text can be keys."""
    session.update("CREATE TABLE bytes AS SELECT x, CASE WHEN g = 1 THEN X'ff00' WHEN g = 2 THEN X'fe' END AS v FROM a")
    found = rows(session, "SELECT x, (SELECT count(*) FROM bytes i WHERE i.v > bytes.v) FROM bytes WHERE x < 3")
    assert sorted(found, key=repr) == [(1, 0), (2, 0), (2, 3)]


@pytest.mark.parametrize(
    "rows_of",
    [
        "(SELECT x, g FROM a LIMIT 5) o LEFT JOIN b ON b.g = o.g",
        "(SELECT DISTINCT ON (g) x, g FROM a) o",
        "(SELECT x, g, row_number() OVER () AS n FROM a) o",
        "(SELECT x, g FROM (SELECT x, g FROM a FETCH FIRST 2 ROWS ONLY) i) o",
    ],
)
def test_rows_that_differ_from_run_to_run_are_refused(session: Session, rows_of: str) -> None:
    """Such rows are read twice: once for their own sake, and once for the keys of the subquery."""
    with pytest.raises(UnsupportedError, match=r"without ORDER BY: write an ORDER BY, or store them first by CREATE"):
        rows(session, f"SELECT o.x FROM {rows_of} WHERE o.x NOT IN (SELECT y FROM b WHERE b.g = o.g)")


def test_keys_of_limited_rows_have_no_limit(session: Session) -> None:
    """The keys of all rows are enough for the rows that LIMIT takes."""
    sql = "SELECT o.x FROM (SELECT x, g FROM a LIMIT 6) o WHERE o.x NOT IN (SELECT y FROM b WHERE b.g = o.g)"
    assert sorted(rows(session, sql)) == [(4,), (5,)]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT x, ARRAY(SELECT DISTINCT y FROM b WHERE b.g <= a.g) FROM a",
            "with DISTINCT, GROUP BY, LIMIT or a set",
        ),
        (
            "SELECT o.x, (WITH a AS (SELECT y AS x FROM b) SELECT max(i.x) FROM a i WHERE i.x > o.x) FROM a o",
            "a WITH that hides a table of the outer query",
        ),
        (
            "WITH w AS (SELECT x, random() AS r FROM a) SELECT (SELECT count(*) FROM b WHERE b.y < w.r) + 1 FROM w",
            "beside a table that calls a model or a volatile function",
        ),
    ],
)
def test_what_has_no_join_is_refused(session: Session, sql: str, told: str) -> None:
    """The error says what the server cannot write as a join."""
    with pytest.raises(UnsupportedError, match=told):
        rows(session, sql)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT v.i, u FROM lists v, unnest(v.l) u", [(1, "a, b"), (2, "a"), (2, "b"), (3, ""), (4, None)]),
        ("SELECT v.i, (SELECT array_length(v.l) + min(y) - 1 FROM b) FROM lists v", [(1, 1), (2, 2), (3, 1), (4, 1)]),
        (
            "SELECT p.i, q.i AS j FROM lists p JOIN lists q ON p.l IS NOT DISTINCT FROM q.l JOIN b ON b.y = 1",
            [(1, 1), (2, 2), (3, 3), (4, 4)],
        ),
        ("SELECT x, (SELECT y FROM b WHERE b.g = a.g ORDER BY y LIMIT NULL) FROM a WHERE g = 3", [(5, 3)]),
        (
            "SELECT DISTINCT ON (g) g, (SELECT count(*) FROM b WHERE b.g = a.g) FROM a WHERE g < 3 ORDER BY g, x",
            [(1, 2), (2, 1)],
        ),
    ],
)
def test_keys_and_limits_of_every_kind(session: Session, sql: str, wanted: list[tuple[object, ...]]) -> None:
    """Different lists can have the same text, and LIMIT NULL is no limit."""
    session.update("CREATE OR REPLACE TABLE lists AS SELECT 1 AS i, make_array('a, b') AS l")
    session.update("INSERT INTO lists SELECT 2, make_array('a', 'b')")
    session.update("INSERT INTO lists SELECT 3, make_array('')")
    session.update("INSERT INTO lists SELECT 4, make_array(CAST(NULL AS text))")
    assert sorted(rows(session, sql), key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ("SELECT x, g, random() AS r FROM a", "beside a table that calls a model or a volatile function"),
        ("SELECT x, g FROM a WHERE ai_filter('Is it odd?', CAST(x AS text))", "beside a table that calls a model"),
        ("SELECT x, g FROM a LIMIT 3", "without ORDER BY"),
    ],
)
def test_views_are_read(session: Session, view: str, told: str) -> None:
    """The rows of such a view differ from run to run, and so do those of a view over it."""
    session.update(f"CREATE OR REPLACE VIEW inner_v AS {view}")
    session.update("CREATE OR REPLACE VIEW outer_v AS SELECT x, g FROM inner_v")
    for name in ("inner_v", "outer_v"):
        with pytest.raises(UnsupportedError, match=told):
            rows(session, f"SELECT x FROM {name} AS v WHERE x NOT IN (SELECT y FROM b WHERE b.g = v.g)")


def test_own_functions_ask_a_model() -> None:
    """A function of the configuration's folders has any name, and is never called twice."""
    known = Known(columns_of, own_functions=frozenset({"judge"}))
    tree = parse(ParsedText("SELECT (SELECT max(y) FROM b WHERE b.g < v.g) + 1 FROM (SELECT judge(x) AS g FROM a) v"))
    assert tree is not None
    assert subqueries(tree, columns_of) is not tree
    with pytest.raises(UnsupportedError, match="beside a table that calls a model"):
        subqueries(tree, known)


@pytest.mark.parametrize(
    "rows_of",
    [
        "SELECT x, g FROM a ORDER BY g LIMIT 2",
        "SELECT x + 1 AS x, g FROM a ORDER BY x DESC NULLS LAST LIMIT 1 OFFSET 2",
    ],
)
def test_keys_of_ordered_rows_hold_their_equals(session: Session, rows_of: str) -> None:
    """Of rows that are equal in the order, LIMIT takes any."""
    pairs = (
        f"SELECT o.x, (SELECT count(*) FROM b WHERE b.y <= o.x) AS n FROM ({rows_of}) o",
        f"WITH o AS ({rows_of}) SELECT o.x, (SELECT count(*) FROM b WHERE b.y <= o.x) AS n FROM o",
    )
    for sql in pairs:
        tree = parse(ParsedText(sql))
        assert tree is not None
        assert "rank() OVER (ORDER BY" in subqueries(tree, columns_of).printed()
        assert all(n is not None for _, n in rows(session, sql))
