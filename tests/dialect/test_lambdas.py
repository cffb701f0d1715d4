"""Lambdas and comprehensions of lists give the rows of DuckDB, which the tests have from DuckDB 2.0."""

from collections.abc import Iterator

import pytest

from flightllm.errors import FlightLLMError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows, small_database

LISTS = """CREATE TABLE lists AS SELECT * FROM (VALUES
    (1, 'p', [1, 2, 3], 5, [7]), (2, 'q', NULL, 2, [8]), (3, 'r', [], 3, NULL), (4, NULL, [NULL, 1], NULL, [9, 10]))
    AS v(id, s, a, b, l)"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a table that has a NULL list, an empty list, and a list with a NULL."""
    database = small_database(tmp_path_factory.mktemp("lambdas"))
    made = database.session()
    made.update(LISTS)
    yield made
    database.close()


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("list_transform(a, x -> x + 1)", [[2, 3, 4], None, [], [None, 2]]),
        ("list_transform(a, lambda x: x + b)", [[6, 7, 8], None, [], [None, None]]),
        ("array_apply(a, lambda x:x+1)", [[2, 3, 4], None, [], [None, 2]]),
        ("list_transform(a, (x) -> x || s)", [["1p", "2p", "3p"], None, [], [None, None]]),
        ("list_transform(a, X -> x / 2)", [[0, 1, 1], None, [], [None, 0]]),
        ("list_transform(a, x -> CASE WHEN x > 1 THEN b ELSE 0 END)", [[0, 5, 5], None, [], [0, 0]]),
        ("list_transform(a, x -> coalesce(x, id))", [[1, 2, 3], None, [], [4, 1]]),
        ("list_transform(a, x -> {x: x}.x)", [[1, 2, 3], None, [], [None, 1]]),
        ("list_filter(a, x -> x > 1)", [[2, 3], None, [], []]),
        ("list_filter(a, x -> x IS NULL)", [[], None, [], [None]]),
        ("array_filter(a, x -> x + id > 3)", [[3], None, [], [1]]),
        ("list_transform(list_filter(a, x -> x > 1), x -> -x)", [[-2, -3], None, [], []]),
        ("list_transform(a, x -> list_filter(l, y -> y > x + b))", [[[7], [], []], None, [], [[], []]]),
        ("list_transform(a, x -> list_transform(l, x -> x))", [[[7], [7], [7]], None, [], [[9, 10], [9, 10]]]),
        ("[x * 2 for x in a if x > 1]", [[4, 6], None, [], []]),
        ("[x + b for x in a]", [[6, 7, 8], None, [], [None, None]]),
        ("[[y * x for y in l] for x in a]", [[[7], [14], [21]], None, [], [[None, None], [9, 10]]]),
        ("list_transform(a, x -> 'k')", [["k", "k", "k"], None, [], ["k", "k"]]),
        ("list_transform(['{\"n\": 2}'], x -> x ->> 'n')", [["2"]] * 4),
        ("list_transform([{'n': id}], x -> x.n + 1)", [[2], [3], [4], [5]]),
    ],
)
def test_values(session: Session, expression: str, values: list[object]) -> None:
    """Each expression has DuckDB's value in each row; elements keep their order."""
    assert rows(session, f"SELECT {expression} AS r FROM lists ORDER BY id") == [{"r": one} for one in values]


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("any_match(a, x -> x > 2)", [True, None, False, None]),
        ("all_match(a, x -> x > 0)", [True, None, True, None]),
        ("none_match(a, x -> x > 2)", [False, None, True, None]),
        ("exists(a, x -> x = 1)", [True, None, False, True]),
        ("forall(a, x -> x > 1)", [False, None, True, False]),
    ],
)
def test_matches(session: Session, expression: str, values: list[object]) -> None:
    """The tests of Trino and Spark have three values: a NULL element can decide nothing."""
    assert rows(session, f"SELECT {expression} AS r FROM lists ORDER BY id") == [{"r": one} for one in values]


def test_places(session: Session) -> None:
    """A lambda can be in WHERE, GROUP BY, ORDER BY, a join, a view, an AI call's argument and beside an AI call."""
    assert rows(session, "SELECT id FROM lists WHERE any_match(a, x -> x > 2)") == [{"id": 1}]
    assert rows(session, "SELECT id FROM lists WHERE len([x for x in a if x < b]) > 1") == [{"id": 1}]
    grouped = "SELECT list_transform(a, x -> 0) AS r, count(*) AS n FROM lists GROUP BY list_transform(a, x -> 0)"
    assert {str(row["r"]): row["n"] for row in rows(session, grouped)} == {
        "[0, 0, 0]": 1,
        "[0, 0]": 1,
        "[]": 1,
        "None": 1,
    }
    ordered = "SELECT id, len([x for x in a if x > 1]) AS n FROM lists WHERE a IS NOT NULL ORDER BY n DESC, id"
    assert [row["id"] for row in rows(session, ordered)] == [1, 3, 4]
    joined = "SELECT p.id, [x + p.id for x in l.a] AS r FROM people p JOIN lists l ON p.id = l.id WHERE l.s <> 'q'"
    assert rows(session, f"{joined} ORDER BY 1") == [{"id": 1, "r": [2, 3, 4]}, {"id": 3, "r": []}]
    session.update("CREATE VIEW doubled AS SELECT id, [x * 2 for x in a] AS r FROM lists")
    assert rows(session, "SELECT r FROM doubled WHERE id = 1") == [{"r": [2, 4, 6]}]
    asked = "SELECT ai_gen('Sum up', [x + b for x in a]) IS NOT NULL AS g, [x + b for x in a] AS r FROM lists"
    assert rows(session, f"{asked} ORDER BY id") == [
        {"g": True, "r": [6, 7, 8]},
        {"g": False, "r": None},
        {"g": True, "r": []},
        {"g": True, "r": [None, None]},
    ]
    filtered = "SELECT id, [x + b for x in a] AS r FROM lists WHERE ai_filter('Is it good?', s) OR id > 0 ORDER BY id"
    assert [row["r"] for row in rows(session, filtered)] == [[6, 7, 8], None, [], [None, None]]


def test_other_words(session: Session) -> None:
    """A text with a lambda still reads what DataFusion reads only without one: E'…' and EXCEPT."""
    query = (
        r"SELECT list_transform(t, x -> x || E'\'') AS r, E'a\nb' AS e, * EXCEPT (t) FROM (SELECT ['k'] AS t, 1 AS b)"
    )
    assert rows(session, f"{query} q") == [{"r": ["k'"], "e": "a\nb", "b": 1}]


def test_names(session: Session) -> None:
    """A column has the name of the sent text."""
    asked = ask(session, "SELECT list_transform(a, x -> x + 1), [x for x in a] FROM lists")
    assert asked.table.column_names == ["list_transform(a, x -> x + 1)", "[x for x in a]"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("list_reduce(a, (x, y) -> x + y)", "list_sum"),
        ("list_transform(a, (x, i) -> x + i)", "WITH ORDINALITY"),
        ("list_transform(a, lambda x, i: x + i)", "WITH ORDINALITY"),
        ("list_transform(a, x -> ai_gen('Say it', x))", "ai_gen cannot be inside of a lambda"),
        ("list_transform(a, x -> (SELECT max(w.b) FROM lists w WHERE w.b > x))", "subquery in a lambda"),
        ("list_transform(a, x -> x IN (SELECT 1))", "subquery in a lambda"),
    ],
)
def test_refused(session: Session, expression: str, said: str) -> None:
    """An error says what to write in place of what DataFusion's lambdas cannot do."""
    with pytest.raises(UnsupportedError, match=said):
        rows(session, f"SELECT {expression} FROM lists")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM lists ORDER BY len(list_filter(a, x -> x > 1)), id",
        "SELECT row_number() OVER (PARTITION BY list_filter(a, x -> x > 1) ORDER BY id) FROM lists",
        "SELECT array_agg(id ORDER BY list_filter(a, x -> x > 1)) FROM lists",
    ],
)
def test_refused_keys(session: Session, query: str) -> None:
    """A key of ORDER BY or PARTITION BY must be computed before, because DataFusion fails over several partitions."""
    with pytest.raises(UnsupportedError, match="subquery in FROM"):
        rows(session, query)


def test_errors(session: Session) -> None:
    """Errors name parameters as the text does, and say what to write in place of VALUES."""
    with pytest.raises(FlightLLMError, match="put the rows into a table"):
        rows(session, "SELECT [x + b for x in a] FROM (VALUES ([1], 2, 3)) v(a, b, c)")
    with pytest.raises(FlightLLMError) as caught:
        rows(session, "SELECT list_transform(a, x -> x + nosuch) FROM lists")
    assert "__" not in str(caught.value)


def test_arrows_of_json(session: Session) -> None:
    """An arrow outside of these functions still reads JSON, and columns can have a parameter's name."""
    query = """SELECT id FROM likes JOIN lists ON id = person_id
        WHERE EXISTS (SELECT weight, j -> 'a' FROM (SELECT '{"a": 1}' AS j) q) AND any_match(a, x -> x > 2)"""
    assert rows(session, query) == [{"id": 1}] * 2
    assert rows(session, """SELECT '{"a": 1}' -> 'a' AS r, filter, x FROM (SELECT 1 AS filter, 2 AS x) q""") == [
        {"r": "1", "filter": 1, "x": 2}
    ]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("transform(a, (x, i) -> x + i)", "LATERAL VIEW posexplode"),
        ("aggregate(a, 0, (s, x) -> s * x)", "write aggregate"),
        ("aggregate(a, 1, (s, x) -> s + x)", "write aggregate"),
        ("aggregate(a, 0, (s, x) -> s + x, s -> s * 2)", "write aggregate"),
        ("aggregate(array(rand()), 0, (s, x) -> s + x)", "random"),
        ("zip_with(a, l, (x, y) -> x + y)", "LATERAL VIEW posexplode"),
        ("map_zip_with(map('a', 1), map('a', 2), (k, x, y) -> x + y)", "LATERAL VIEW explode"),
    ],
)
def test_refused_in_spark(session: Session, expression: str, said: str) -> None:
    """An error says in Spark's words what to write in place of other lambdas."""
    with pytest.raises(UnsupportedError, match=said):
        ask(session, f"SELECT {expression} FROM lists", dialect="spark")
