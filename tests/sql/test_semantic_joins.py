"""Joins on searches find the right pairs; errors say what to write instead of unsupported joins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import SqlError
from flightllm.functions import FunctionRegistry
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.semantic_joins import Pairs, SemanticJoin, replace_semantic_joins
from tests.databases import rows
from tests.packages import needs

pytestmark = needs("faiss", "tantivy", extra="vector")

FRUIT = """CREATE TABLE fruit AS SELECT * FROM (VALUES
    (1, 'a red apple'), (2, 'a green pear'), (3, NULL), (5, 'the stock market'), (6, 'apple pie')
) AS v(id, name)"""
WISHES = "CREATE TABLE wishes AS SELECT * FROM (VALUES (1, 'a red apple'), (2, 'apple pie'), (3, NULL)) AS v(n, wish)"
SEARCH = "vector_search('names', w.wish, top_k => 1)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with the table `fruit`, an index over it, and the table `wishes` with queries."""
    config = Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=tmp_path)
    opened = Database.open(config)
    session = opened.session()
    session.update(FRUIT)
    session.update(WISHES)
    session.update("CREATE VECTOR INDEX names ON fruit(name)")
    yield session
    opened.close()


@pytest.mark.parametrize(
    ("join", "found"),
    [
        ("JOIN", [(1, 1), (2, 6)]),
        ("INNER JOIN", [(1, 1), (2, 6)]),
        ("GLOBAL JOIN", [(1, 1), (2, 6)]),
        ("LEFT JOIN", [(1, 1), (2, 6), (3, None)]),
        ("LEFT OUTER JOIN", [(1, 1), (2, 6), (3, None)]),
    ],
)
def test_kinds_of_join(session: Session, join: str, found: list[tuple[int, int | None]]) -> None:
    """Inner and left joins return the pairs; left joins keep the queries without a pair."""
    got = rows(session, f"SELECT w.n, f.id FROM wishes w {join} fruit f ON {SEARCH} ORDER BY w.n")
    assert [(row["n"], row["id"]) for row in got] == found


def test_the_example_of_replace_semantic_joins(session: Session) -> None:
    """The SQL and the rows in the docstring hold."""
    joins: list[SemanticJoin] = []

    def find(join: SemanticJoin) -> Pairs:
        joins.append(join)
        return Pairs('"found"', "__query")

    statement = f"SELECT w.n, f.id FROM wishes w JOIN fruit f ON {SEARCH} AND f.id > 1"
    assert replace_semantic_joins(ParsedText(statement), FunctionRegistry.load(), find).sql == (
        'SELECT w.n, f.id FROM wishes w JOIN "found" AS "f" ON (w.wish) = "f"."__query" AND f.id > 1'
    )
    [join] = joins
    assert (join.index, join.table.name, join.text) == ("names", "fruit", SEARCH)
    assert join.pairs == (
        "SELECT query, vector_search('names', query, top_k => 1) AS __near FROM"
        ' (SELECT DISTINCT w.wish AS query FROM "wishes" AS "w" WHERE (w.wish) IS NOT NULL) AS queries'
    )
    assert rows(session, statement) == [{"n": 2, "id": 6}]


def test_semi_and_anti_joins(session: Session) -> None:
    """Semi joins return the queries with a pair, anti joins the others; a further condition filters the pairs."""
    cases = (("LEFT SEMI", "", [1, 2]), ("SEMI", "", [1, 2]), ("LEFT ANTI", "", [3]), ("ANTI", "AND f.id < 6", [2, 3]))
    for join, more, found in cases:
        sql = f"SELECT w.n FROM wishes w {join} JOIN fruit f ON {SEARCH} {more} ORDER BY w.n"
        assert [row["n"] for row in rows(session, sql)] == found


@pytest.mark.parametrize(
    "join",
    ["RIGHT", "RIGHT OUTER", "FULL", "FULL OUTER", "RIGHT SEMI", "RIGHT ANTI", "CROSS", "NATURAL"],
)
def test_joins_of_all_rows(session: Session, join: str) -> None:
    """A join that needs rows of `fruit` without a pair is refused."""
    said = f"{join} JOIN needs all rows of fruit: write the table of the queries first, with JOIN or LEFT JOIN"
    with pytest.raises(SqlError, match=said):
        rows(session, f"SELECT * FROM wishes w {join} JOIN fruit f ON {SEARCH}")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("AND f.id > 1", [2]),
        ("AND (f.id = 6 OR w.n = 3)", [2]),
        ("AND CASE WHEN f.id = 6 OR w.n = 3 THEN true ELSE false END", [2]),
        ("AND left(f.name, 1) = 'a' AND f.id BETWEEN 2 AND 9", [2]),
        ("AND f.id IS DISTINCT FROM 6 LEFT JOIN fruit g ON g.id = f.id OR g.id = f.id", [1]),
        ("JOIN wishes x ON x.n = w.n OR false", [1, 2]),
        ("WHERE f.id = 6 OR w.n = 3", [2]),
    ],
)
def test_further_conditions(session: Session, condition: str, found: list[int]) -> None:
    """A condition after AND, without OR beside it, filters the pairs."""
    got = rows(session, f"SELECT w.n FROM wishes w JOIN fruit f ON {SEARCH} {condition} ORDER BY w.n")
    assert [row["n"] for row in got] == found


@pytest.mark.parametrize(
    "condition",
    [
        "OR f.id = 5",
        "IS NOT NULL",
        "= true",
        "[1]['id'] = f.id",
        "AND f.id = 5 OR f.id = 6",
        "AND CASE WHEN f.id = 6 THEN true ELSE false END OR f.id = 5",
    ],
)
def test_other_conditions(session: Session, condition: str) -> None:
    """A condition that can hold for rows that are no pairs is refused."""
    said = r"after ON must be a separate condition: write ON vector_search\(…\), or .* any OR in the parentheses"
    with pytest.raises(SqlError, match=said):
        rows(session, f"SELECT * FROM wishes w JOIN fruit f ON {SEARCH} {condition}")


@pytest.mark.parametrize(
    "condition",
    [f"f.id > 0 AND {SEARCH}", f"({SEARCH})", f"(({SEARCH} AND f.id > 0))", f"NOT {SEARCH}", f"f.id = 1 OR ({SEARCH})"],
)
def test_searches_later_in_on(session: Session, condition: str) -> None:
    """A search that is a later condition of ON is refused."""
    with pytest.raises(SqlError, match="must come first in ON, outside parentheses"):
        rows(session, f"SELECT * FROM wishes w JOIN fruit f ON {condition}")


def test_answers_of_searches_in_on(session: Session) -> None:
    """A search inside a condition runs once for each row, as in other clauses."""
    near = "vector_search('names', w.wish, top_k => 1, returning => 'id')[1]"
    got = rows(session, f"SELECT w.n, f.id FROM wishes w JOIN fruit f ON f.id = {near} ORDER BY w.n")
    assert [(row["n"], row["id"]) for row in got] == [(1, 1), (2, 6)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("(SELECT 'apple ' || CAST(random() AS VARCHAR) AS wish) w", "random changes from run to run"),
        ("(SELECT 'apple ' || CAST(now() AS VARCHAR) AS wish) w", "now changes from run to run"),
        ("(SELECT wish FROM wishes WHERE current_date > '2020-01-01') w", "current_date changes from run to run"),
        ("(SELECT wish FROM wishes LIMIT 1) w", "LIMIT without ORDER BY .* order them, or write these rows"),
        ("(SELECT wish FROM wishes OFFSET 1) w", "OFFSET without ORDER BY"),
        ("(SELECT ai_gen('x', wish) AS wish FROM wishes) w", "cannot search for answers of ai_gen"),
    ],
)
def test_sources_that_differ(session: Session, source: str, said: str) -> None:
    """Queries that can differ from run to run, or are AI answers, are refused, in WITH queries too."""
    said += r".* a table first: CREATE TABLE … AS"
    with pytest.raises(SqlError, match=said):
        rows(session, f"SELECT * FROM {source} JOIN fruit f ON {SEARCH}")
    for statement in ("", "EXPLAIN "):
        text = f"WITH inner_one AS {source[:-2]}, outer_one AS (SELECT * FROM inner_one)"
        with pytest.raises(SqlError, match=said):
            rows(session, f"{statement}{text} SELECT * FROM outer_one w JOIN fruit f ON {SEARCH}")
    assert rows(session, "SELECT calls FROM system.ai_calls WHERE function = 'ai_gen'") == []


def test_queries_that_differ(session: Session) -> None:
    """An expression that differs from run to run is refused as a query."""
    with pytest.raises(SqlError, match="random changes from run to run"):
        rows(session, "SELECT * FROM wishes w JOIN fruit f ON vector_search('names', w.wish || random())")


def test_sources_that_stay(session: Session) -> None:
    """Ordered rows are accepted as queries; tables that hold no queries can differ from run to run."""
    ordered = "(SELECT wish, wish AS now, n AS limit FROM wishes ORDER BY n LIMIT 1) w"
    assert rows(session, f"SELECT f.id FROM {ordered} JOIN fruit f ON {SEARCH}") == [{"id": 1}]
    sql = f"""WITH told AS (SELECT n, ai_gen('x', wish) AS told FROM wishes LIMIT 9), asked (n, wish) AS (
            WITH two AS (SELECT * FROM wishes WHERE n = 2) SELECT * FROM two
        )
        SELECT w.n, f.id, random() > 2 AS no FROM told JOIN asked w ON told.n = w.n JOIN fruit f ON {SEARCH}"""
    assert rows(session, sql) == [{"n": 2, "id": 6, "no": False}]


def test_with_queries_at_two_levels(session: Session) -> None:
    """The table of the queries can read WITH queries of its SELECT and of the SELECTs around it."""
    sql = f"""WITH a AS (SELECT * FROM wishes WHERE n > 1)
        SELECT * FROM (WITH w AS (SELECT * FROM a WHERE n < 3) SELECT w.n, f.id FROM w JOIN fruit f ON {SEARCH}) AS x"""
    assert rows(session, sql) == [{"n": 2, "id": 6}]


def test_arguments_that_ask(session: Session) -> None:
    """A search with AI calls as arguments is refused before any model call."""
    with pytest.raises(SqlError, match="in FROM its arguments must be constants"):
        rows(session, "EXPLAIN SELECT * FROM vector_search('names', ai_gen('x', 'y'))")
    with pytest.raises(SqlError, match="write the AI calls in a subquery"):
        rows(session, "SELECT * FROM wishes w JOIN fruit f ON vector_search('names', w.wish, top_k => ai_gen('x'))")
    assert rows(session, "SELECT calls FROM system.ai_calls WHERE function = 'ai_gen'") == []


def test_returning(session: Session) -> None:
    """A search that returns a single column is refused in ON and FROM."""
    one = "vector_search('names', {}, returning => 'id')"
    with pytest.raises(SqlError, match="after ON a search returns all columns: leave out returning"):
        rows(session, f"SELECT * FROM wishes w JOIN fruit f ON {one.format('w.wish')}")
    with pytest.raises(SqlError, match="in FROM a search returns all columns: leave out returning"):
        rows(session, f"SELECT * FROM {one.format(repr('pear'))}")


def test_name_of_the_query(session: Session) -> None:
    """The column of the query gets a name that no other column has."""
    session.update("CREATE TABLE asked AS SELECT wish AS query, wish AS __query FROM wishes WHERE n = 2")
    join = "asked JOIN fruit f ON vector_search('names', query, top_k => 1)"
    assert rows(session, f"SELECT query, f.__query FROM {join}") == [{"query": "apple pie", "__query": "apple pie"}]
    session.update("CREATE VECTOR INDEX asked ON asked(query)")
    join = "wishes w JOIN asked a ON vector_search('asked', w.wish || '!', top_k => 1)"
    [row] = rows(session, f"SELECT a.__query, a.__query_2 FROM {join} AND w.n = 1")
    assert row == {"__query": "apple pie", "__query_2": "a red apple!"}


def test_views_of_searches(session: Session) -> None:
    """A view searches when it is read; it can be joined and can hold queries."""
    session.update("CREATE VIEW best AS SELECT * FROM vector_search('names', 'a plum', top_k => 1)")
    session.update(f"CREATE VIEW met AS SELECT w.n, w.wish, f.id FROM wishes w JOIN fruit f ON {SEARCH}")
    session.update("CREATE VIEW near AS SELECT n, vector_search('names', wish, top_k => 1)[1]['id'] AS id FROM wishes")
    assert rows(session, "SELECT n, id FROM met ORDER BY n") == [{"n": 1, "id": 1}, {"n": 2, "id": 6}]
    assert [row["id"] for row in rows(session, "SELECT id FROM near ORDER BY n")] == [1, 6, None]
    session.update("INSERT INTO fruit VALUES (7, 'a plum')")
    session.update("REFRESH VECTOR INDEX names")
    assert rows(session, "SELECT id FROM best") == [{"id": 7}]
    got = rows(session, f"SELECT w.n, f.id FROM met w JOIN fruit f ON {SEARCH} JOIN best ON true ORDER BY w.n")
    assert got == [{"n": 1, "id": 1}, {"n": 2, "id": 6}]
    session.update("CREATE VIEW plain AS SELECT n AS ai_n FROM wishes")
    assert len(rows(session, "SELECT ai_n FROM plain")) == 3
    session.update("CREATE SCHEMA other")
    session.update("CREATE VIEW other.best AS SELECT id FROM vector_search('names', 'a cherry')")
    assert rows(session, "SELECT count(*) AS n FROM other.best o JOIN best ON true")[0]["n"] > 0
