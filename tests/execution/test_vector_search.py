"""Searches in vector indexes from SQL: for each row, in FROM, after ON; what is wrong is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import AICallError, BudgetExceededError, FlightLLMError, SqlError
from flightllm.session.session import Session
from tests.databases import rows
from tests.indexes import indexed
from tests.packages import needs

pytestmark = needs("faiss", "tantivy", extra="vector")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with a table and an index over it."""
    with indexed(tmp_path) as session:
        yield session


def test_search_of_each_row(session: Session) -> None:
    """Each row gets its nearest rows, equal texts the same; NULL finds nothing."""
    found = {
        row["id"]: row["near"]
        for row in rows(session, "SELECT id, vector_search('names', name, top_k => 2) AS near FROM fruit")
    }
    assert found[3] is None
    assert found[1] == found[4]
    assert {near["id"] for near in found[1]} == {1, 4}
    assert found[5][0] == {"id": 5, "name": "the stock market", "score": pytest.approx(1)}


def test_modes_and_filter(session: Session) -> None:
    """By words and by both; only rows for which the condition is true."""
    [row] = rows(session, "SELECT text_search('names', 'apples')[1]['name'] AS best")
    assert row["best"] == "apple pie"
    sql = "SELECT vector_search('names', 'apple', mode => 'hybrid', top_k => 9, filter => 'id > 1 AND id <> 6') AS near"
    [row] = rows(session, sql)
    assert row["near"][0]["id"] == 4
    assert {near["id"] for near in row["near"]} == {2, 4, 5}


def test_search_in_from(session: Session) -> None:
    """A search stands in FROM like a table, with or without an alias, beside AI calls and in joins."""
    found = rows(session, "SELECT id, score FROM vector_search('names', 'apple pie', top_k => 2) ORDER BY score DESC")
    assert [row["id"] for row in found][:1] == [6]
    sql = """SELECT f.id, v.score, ai_gen('Recommend?', v.*) AS g
        FROM fruit f JOIN vector_search('names', 'pear', filter => 'id < 5', top_k => 9) AS v ON f.id = v.id"""
    assert {row["id"] for row in rows(session, sql)} == {1, 2, 4}
    assert rows(session, "SELECT count(*) AS n FROM text_search('names', 'nothing')") == [{"n": 0}]
    with pytest.raises(SqlError, match="in FROM its arguments must be constants"):
        rows(session, "SELECT * FROM fruit f, vector_search('names', f.name) v")


def test_searches_are_one_batch(session: Session) -> None:
    """Distinct inputs are searched once, which costs no call of a model."""
    rows(session, "SELECT vector_search('names', name) FROM fruit")
    [call] = rows(session, "SELECT calls, rows FROM system.ai_calls WHERE function = 'vector_search'")
    assert call == {"calls": 4, "rows": 6}
    [query] = rows(session, "SELECT calls FROM system.queries WHERE sql LIKE '%FROM fruit'")
    assert query == {"calls": 0}


def test_similarity(session: Session) -> None:
    """Texts are compared by their vectors, each embedded once; NULL stays NULL."""
    found = rows(session, "SELECT id, ai_similarity(name, 'red apple') AS s FROM fruit ORDER BY s DESC NULLS LAST, id")
    assert [row["id"] for row in found][:3] == [1, 4, 6]
    assert found[-1] == {"id": 3, "s": None}
    [row] = rows(session, "SELECT ai_similarity(ai_text, ai_text) AS s FROM (SELECT 'same' AS ai_text) AS x")
    assert row["s"] == pytest.approx(1)


def test_cheap_filters_first(session: Session) -> None:
    """The language model is asked about the rows that are similar alone."""
    rows(session, "SELECT id FROM fruit WHERE ai_filter('Sweet?', name) AND ai_similarity(name, 'red apple') > 0.7")
    [call] = rows(session, "SELECT rows FROM system.ai_calls WHERE function = 'ai_filter'")
    assert call["rows"] == 2


def test_budget_is_for_the_model(session: Session) -> None:
    """Texts that are embedded and searches count neither in a budget nor in its estimate."""
    session.update("SET flightllm.max_calls = 2")
    assert len(rows(session, "SELECT vector_search('names', name), ai_embed(name) FROM fruit")) == 6
    assert rows(session, "SELECT ai_gen('x', name) FROM fruit WHERE ai_similarity(name, 'apple pie') > 0.9")
    with pytest.raises(BudgetExceededError):
        rows(session, "SELECT ai_gen('x', name), ai_embed(name) FROM fruit")


def test_index_over_vectors(session: Session) -> None:
    """A column of vectors is searched for vectors; the columns asked for are returned."""
    session.update("CREATE TABLE embedded AS SELECT id, name, ai_embed(name) AS v FROM fruit")
    assert session.update("CREATE VECTOR INDEX vectors ON embedded(v) OPTIONS (type 'hnsw', columns 'id')") == 5
    found = rows(session, "SELECT id, vector_search('vectors', v, top_k => 1) AS near FROM embedded WHERE id IN (2, 5)")
    assert {row["id"]: row["near"][0]["id"] for row in found} == {2: 2, 5: 5}
    assert list(found[0]["near"][0]) == ["id", "score"]
    with pytest.raises(SqlError, match="has vectors without text"):
        rows(session, "SELECT text_search('vectors', 'apple')")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("vector_search('nix', 'a')", "see SHOW VECTOR INDEXES"),
        ("vector_search(name, 'a')", "must be the name of a vector index"),
        ("vector_search('names', name, top_k => 0)", "at least 1"),
        ("vector_search('names', name, mode => 'x')", "'vector', 'text', 'hybrid'"),
        ("vector_search('names', name, filter => 'nix > 2')", "No field named nix"),
        ("ai_similarity(name)", "takes 2 texts"),
        ("ai_embed(name, role => 'x')", "'document', 'query'"),
    ],
)
def test_wrong_calls(session: Session, call: str, said: str) -> None:
    """A call that cannot be right fails before it runs."""
    with pytest.raises(FlightLLMError, match=said):
        session.execute(f"SELECT {call} FROM fruit")


def test_join_on_a_search(session: Session) -> None:
    """Each row meets the rows nearest to it, with their scores; NULL meets none."""
    session.update(
        "CREATE TABLE wishes AS SELECT * FROM (VALUES (1, 'red apple'), (2, 'apple pie'), (3, NULL)) AS v(n, wish)"
    )
    found = rows(
        session,
        "SELECT w.n, f.id, f.name, f.score FROM wishes AS w JOIN fruit AS f"
        " ON vector_search('names', w.wish, top_k => 2) AND f.id <> 1 ORDER BY w.n, f.score DESC, f.id",
    )
    assert [(row["n"], row["id"]) for row in found] == [(1, 4), (2, 6), (2, found[2]["id"])]
    assert found[1]["score"] == pytest.approx(1)
    with_ai = "SELECT w.n, ai_gen('Why?', f.name) AS why FROM wishes w LEFT JOIN fruit f ON text_search('names', wish)"
    assert {row["n"] for row in rows(session, f"{with_ai} WHERE ai_filter('Is it fruit?', wish) OR true")} == {1, 2, 3}


@pytest.mark.parametrize(
    "source",
    [
        "wishes w JOIN fruit ON vector_search('names', upper(w.wish), top_k => 1)",
        "(SELECT wish AS s FROM wishes) q JOIN fruit ON vector_search(query => q.s, index => 'names', top_k => 1)",
        "wishes w JOIN wishes v ON w.n = v.n JOIN fruit f ON vector_search('names', v.wish || w.wish, top_k => 1)",
    ],
)
def test_joins_on_searches(session: Session, source: str) -> None:
    """Queries are any expression over one table or subquery."""
    session.update("CREATE TABLE wishes AS SELECT 7 AS n, 'a green pear' AS wish")
    if "v.wish || w.wish" in source:
        with pytest.raises(SqlError, match="search for columns of one table"):
            rows(session, f"SELECT * FROM {source}")
        return
    assert [row["id"] for row in rows(session, f"SELECT fruit.id FROM {source}")] == [2]
    assert [row["id"] for row in rows(session, f"WITH w AS (SELECT 1) SELECT fruit.id FROM {source}")] == [2]


@pytest.mark.parametrize(
    ("join", "said"),
    [
        ("people ON vector_search('names', f.name)", "not 'people'"),
        ("(SELECT 1) AS x ON vector_search('names', f.name)", "must join a table by its name"),
        ("fruit g ON vector_search('names')", "needs the name of an index and a query"),
        ("fruit g ON vector_search('nix', f.name)", "no vector index 'nix'"),
        ("fruit g ON vector_search('names', ai_gen('x', f.name))", "write the AI calls in a subquery"),
    ],
)
def test_wrong_joins(session: Session, join: str, said: str) -> None:
    """The error says what to write instead."""
    with pytest.raises(FlightLLMError, match=said):
        rows(session, f"SELECT * FROM fruit f JOIN {join}")


def test_index_of_the_plan(session: Session) -> None:
    """A query searches the index that it was planned for, whatever becomes of it before its rows are fetched."""
    sql = "SELECT id, vector_search('names', name, top_k => 1) AS near FROM fruit WHERE id = 5"
    wanted = rows(session, sql)
    result = session.execute(sql)
    session.update("CREATE OR REPLACE VECTOR INDEX names ON fruit(name) OPTIONS (columns 'name')")
    assert rows(session, "SELECT vector_search('names', 'x')[1]['name'] AS name")[0]["name"]
    assert [row for batch in result.batches for row in batch.to_pylist()] == wanted


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("true) UNION ALL SELECT 9999 WHERE (true", "must be a condition over the index's columns"),
        ("true) LIMIT (1", "must be a condition over the index's columns"),
        ("id IN (SELECT 1)", "must be a condition over the index's columns"),
        (" OR ".join(["id = 1"] * 3_000), r"\[limits\] sql_terms"),
        ("price < 3", "price"),
    ],
)
def test_filters_are_conditions(session: Session, condition: str, said: str) -> None:
    """What is more than a condition, or too long for a plan, is refused before anything is searched."""
    with pytest.raises(FlightLLMError, match=said):
        rows(session, f"SELECT vector_search('names', 'x', filter => '{condition}')")


def test_filters_have_the_rows_of_postgresql(session: Session) -> None:
    """A predicate of which DataFusion makes another one is PostgreSQL's in a filter, too."""
    sql = "SELECT vector_search('names', 'x', top_k => 9, filter => 'id IS DISTINCT FROM 1 AND id < 3') AS near"
    [row] = rows(session, sql)
    assert [near["id"] for near in row["near"]] == [2]


def test_filters_beside_all_rows(session: Session) -> None:
    """A filtered search finds the best of the rows that fulfil its condition, each of them and no other."""
    session.update(
        "CREATE TABLE notes AS SELECT value AS id, value % 7 AS kind, concat('note ', value) AS name"
        " FROM generate_series(1, 500)"
    )
    session.update("CREATE VECTOR INDEX notes ON notes(name) OPTIONS (type 'hnsw')")
    for condition in ("kind = 3", "id % 50 = 1 OR kind IS NULL", "name LIKE '%9' AND id > 100", "false"):
        text = condition.replace("'", "''")
        [row] = rows(session, f"SELECT vector_search('notes', 'note 44', top_k => 5, filter => '{text}') AS near")
        wanted = rows(
            session,
            f"SELECT ai_similarity(name, 'note 44') AS score FROM notes WHERE {condition} ORDER BY 1 DESC LIMIT 5",
        )
        assert [near["score"] for near in row["near"]] == pytest.approx([one["score"] for one in wanted], abs=1e-4)
        ids = [str(near["id"]) for near in row["near"]]
        found = f"SELECT count(*) AS n FROM notes WHERE ({condition}) AND id IN ({', '.join(ids) or 'NULL'})"
        assert rows(session, found) == [{"n": len(ids)}]


def test_explain_embeds_once(session: Session) -> None:
    """What EXPLAIN embeds is known to the query itself."""
    sql = "SELECT ai_embed(concat(name, '!')) FROM fruit"
    rows(session, f"EXPLAIN {sql}")
    rows(session, sql)
    [query] = rows(session, "SELECT calls, cache_hits FROM system.queries WHERE sql LIKE 'SELECT ai_embed%'")
    assert query == {"calls": 0, "cache_hits": 5}


@pytest.mark.parametrize("query", ["ai_embed('an apple')", "[1.0, 2.0]"])
def test_texts_are_searched_for_texts(session: Session, query: str) -> None:
    """A list is no text, though SQL could make one of it."""
    with pytest.raises(AICallError, match="is a list, but must be a text"):
        rows(session, f"SELECT vector_search('names', {query})")


def test_view_of_any_name(session: Session) -> None:
    """No name of a view over a search meets those that searches use themselves."""
    session.update("CREATE VIEW near AS SELECT id FROM vector_search('names', 'apple pie', top_k => 1)")
    assert rows(session, "SELECT * FROM near") == [{"id": 6}]
    assert rows(session, "SELECT vector_search('names', 'apple pie', top_k => 1)[1]['id'] AS near") == [{"near": 6}]
