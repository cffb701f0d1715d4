"""Vector indexes in SQL: built, searched, refreshed, dropped; what is wrong is said."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
pytest.importorskip("tantivy", reason="the extra 'vector' is not installed")

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.database import Database
from flightllm.errors import (
    AICallError,
    BudgetExceededError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    SqlError,
)
from flightllm.session import Session
from flightllm.vector.store import VectorIndexes
from tests.databases import rows

FRUIT = """CREATE TABLE fruit AS SELECT * FROM (VALUES
    (1, 'a red apple'), (2, 'a green pear'), (3, NULL), (4, 'a red apple'), (5, 'the stock market'), (6, 'apple pie')
) AS v(id, name)"""


def database(folder: Path) -> Database:
    """Open a database with embeddings that need no model."""
    return Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with a table and an index over it."""
    opened = database(tmp_path)
    session = opened.session()
    session.update(FRUIT)
    assert session.update("CREATE VECTOR INDEX names ON fruit(name)") == 5
    yield session
    opened.close()


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
    with pytest.raises(SqlError, match="in FROM its arguments are constants"):
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
    with pytest.raises(SqlError, match="no text to search"):
        rows(session, "SELECT text_search('vectors', 'apple')")


def test_stale_and_refreshed(session: Session) -> None:
    """An index whose table has changed says so until it is refreshed."""
    status = "SELECT status, rows, nulls FROM system.vector_indexes"
    assert rows(session, status) == [{"status": "ready", "rows": 5, "nulls": 1}]
    session.update("INSERT INTO fruit VALUES (7, 'a plum')")
    assert rows(session, status)[0]["status"] == "stale: 'fruit' has changed; REFRESH VECTOR INDEX names"
    for sql in ("SELECT vector_search('names', name) FROM fruit", "SELECT * FROM vector_search('names', 'plum')"):
        [told] = (row["plan"] for row in rows(session, f"EXPLAIN {sql}") if row["plan_type"] == "vector index names")
        assert told == "flat over fruit(name), 5 rows: stale: 'fruit' has changed; REFRESH VECTOR INDEX names"
    assert session.update("REFRESH VECTOR INDEX names") == 6
    assert rows(session, "SHOW VECTOR INDEXES")[0]["status"] == "ready"
    [row] = rows(session, "SELECT vector_search('names', 'plum', top_k => 1)[1]['id'] AS id")
    assert row["id"] == 7
    session.update("DELETE FROM fruit WHERE id = 7")
    assert rows(session, status)[0]["status"].startswith("stale")


def trained(folder: Path) -> int:
    """Return how many rows the one index was last built with."""
    [path] = (folder / "vectors").glob("*/manifest.json")
    return int(json.loads(path.read_text())["trained"])


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_refresh_adds_what_is_new(session: Session, tmp_path: Path, kind: str) -> None:
    """New rows, also such as there are already, go after the others, which stay; where rows are gone all are new."""
    session.update(f"CREATE OR REPLACE VECTOR INDEX names ON fruit(name) OPTIONS (type '{kind}')")
    before = rows(session, "SELECT vector_search('names', 'apple pie', top_k => 9) AS near")
    session.update("INSERT INTO fruit VALUES (7, 'a plum'), (1, 'a red apple'), (8, NULL)")
    assert session.update("REFRESH VECTOR INDEX names") == 7
    assert rows(session, "SELECT rows, nulls, status FROM system.vector_indexes") == [
        {"rows": 7, "nulls": 2, "status": "ready"}
    ]
    [found] = rows(session, "SELECT vector_search('names', 'apple pie', top_k => 9) AS near")
    assert sorted(row["id"] for row in found["near"]) == [1, 1, 2, 4, 5, 6, 7]
    assert {row["id"]: row["score"] for row in before[0]["near"]}.items() <= {
        row["id"]: pytest.approx(row["score"]) for row in found["near"]
    }.items()
    [row] = rows(session, "SELECT text_search('names', 'plum') AS near")
    assert [one["id"] for one in row["near"]] == [7]
    assert session.update("REFRESH VECTOR INDEX names") == 7
    assert trained(tmp_path) == 5
    session.update("DELETE FROM fruit WHERE id = 2")
    assert session.update("REFRESH VECTOR INDEX names") == 6
    assert trained(tmp_path) == 6
    [found] = rows(session, "SELECT vector_search('names', 'a green pear', top_k => 9) AS near")
    assert 2 not in {row["id"] for row in found["near"]}


def test_after_a_restart(tmp_path: Path) -> None:
    """An index outlives its server and stays that of its table, until that has other rows."""
    first = database(tmp_path)
    session = first.session()
    session.update(FRUIT)
    session.update("CREATE VECTOR INDEX names ON fruit(name)")
    first.close()
    second = database(tmp_path)
    session = second.session()
    [row] = rows(session, "SELECT vector_search('names', 'pear', top_k => 1)[1]['id'] AS id")
    assert row["id"] == 2
    assert rows(session, "SHOW VECTOR INDEXES")[0]["status"] == "ready"
    session.update("INSERT INTO fruit VALUES (7, 'a plum')")
    assert rows(session, "SHOW VECTOR INDEXES")[0]["status"].startswith("stale: 'fruit' has changed")
    second.close()


def test_damaged(session: Session, tmp_path: Path) -> None:
    """A damaged file fails the query and shows in no row; REFRESH mends it."""
    [path] = (tmp_path / "vectors").glob("*/*/vectors.faiss")
    session.update("CREATE OR REPLACE VECTOR INDEX names ON fruit(name)")
    [path] = (tmp_path / "vectors").glob("*/*/vectors.faiss")
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="'names' is damaged"):
        rows(session, "SELECT vector_search('names', 'pear')")
    session.update("REFRESH VECTOR INDEX names")
    assert rows(session, "SELECT vector_search('names', 'pear') AS near")[0]["near"]


def test_another_embedding_model(tmp_path: Path) -> None:
    """Vectors of another model are never compared: the index says so, and is built anew with the one there is."""
    first = database(tmp_path)
    for statement in (FRUIT, "CREATE VECTOR INDEX names ON fruit(name)"):
        first.session().update(statement)
    first.close()
    config = Config(
        engine=EngineConfig("fake"),
        embedding=EmbeddingConfig("fake", "other", options={"dimensions": 16}),
        data_folder=tmp_path,
    )
    other = Database.open(config)
    there = other.session()
    assert rows(there, "SHOW VECTOR INDEXES")[0]["status"].startswith("stale: its embedding model was 'minilm'")
    for search in ("SELECT vector_search('names', 'pear')", "SELECT * FROM vector_search('names', 'pear')"):
        with pytest.raises(SqlError, match="was built with the embedding model 'minilm', this server has 'other'"):
            rows(there, search)
    assert rows(there, "SELECT text_search('names', 'pear')[1]['id'] AS id") == [{"id": 2}]
    assert there.update("REFRESH VECTOR INDEX names") == 5
    assert rows(there, "SELECT vector_search('names', 'a green pear')[1]['id'] AS id") == [{"id": 2}]
    other.close()


def test_vectors_of_another_length(session: Session) -> None:
    """They fail the query, whatever rows fit; a table that has them cannot be indexed."""
    session.update("CREATE TABLE points AS SELECT * FROM (VALUES (1, [0.5, 1.0]), (2, [0.2, 0.1])) AS v(id, v)")
    session.update("CREATE VECTOR INDEX points ON points(v)")
    for query, said in (
        ("[1.0, 2.0, 3.0]", "vectors of 2 numbers, the query one of 3"),
        ("'text'", "a list of numbers"),
    ):
        for search in (f"SELECT vector_search('points', {query})", f"SELECT * FROM vector_search('points', {query})"):
            with pytest.raises(FlightLLMError, match=said):
                rows(session, search)
    with pytest.raises(InvalidInputError, match="different lengths: 1, 2"):
        rows(session, "SELECT vector_search('points', v) FROM (VALUES ([1.0, 2.0]), ([1.0])) AS t(v)")
    with pytest.raises(InvalidInputError, match="has NULL, NaN or infinity"):
        rows(session, "SELECT vector_search('points', [1.0, NULL])")
    assert rows(session, "SELECT vector_search('points', v) AS near FROM (SELECT [1.0] AS v) AS t WHERE v[1] > 2") == []
    assert rows(session, "SELECT id FROM vector_search('points', [-0.5, -1], top_k => 1)") == [{"id": 2}]
    session.update("INSERT INTO points VALUES (3, [1.0, 2.0, 3.0])")
    for statement in ("REFRESH VECTOR INDEX points", "CREATE OR REPLACE VECTOR INDEX points ON points(v)"):
        with pytest.raises(InvalidInputError, match=r"different lengths|of 2 and of 3 numbers"):
            session.update(statement)
    assert rows(session, "SELECT vector_search('points', [0.5, 1.0])[1]['id'] AS id") == [{"id": 1}]


def test_nothing_to_find(session: Session) -> None:
    """An index of no rows, or of NULLs, finds nothing; there may be rows later. More than there are finds all."""
    session.update("CREATE TABLE notes AS SELECT * FROM fruit WHERE name IS NULL")
    assert session.update("CREATE VECTOR INDEX notes ON notes(name)") == 0
    for mode in ("vector", "text", "hybrid"):
        near = f"vector_search('notes', 'pear', mode => '{mode}', top_k => 3)"
        assert rows(session, f"SELECT {near} AS near") == [{"near": []}]
        assert rows(session, f"SELECT * FROM {near}") == []
    session.update("INSERT INTO notes VALUES (1, 'a plum')")
    assert session.update("REFRESH VECTOR INDEX notes") == 1
    assert rows(session, "SELECT id FROM vector_search('notes', 'pear', top_k => 10000)") == [{"id": 1}]
    assert rows(session, "SELECT vector_search('notes', NULL) AS near") == [{"near": None}]
    assert rows(session, "SELECT * FROM vector_search('names', 'pear', filter => 'id > 99')") == []


@pytest.mark.parametrize(
    ("sql", "kind", "said"),
    [
        ("CREATE VECTOR INDEX names ON fruit(name)", InvalidInputError, "exists: write CREATE OR REPLACE"),
        ("CREATE VECTOR INDEX i ON fruit(nix)", NotFoundError, "its columns are id, name"),
        ("CREATE VECTOR INDEX i ON nix(name)", NotFoundError, "the tables are: fruit"),
        ("CREATE VECTOR INDEX i ON fruit(id)", InvalidInputError, "a text column, or one of lists"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (model 'x')", InvalidInputError, "no embedding model 'x'"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (columns 'a')", NotFoundError, "no column 'a'"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (type 'ivfpq')", InvalidInputError, "take type 'flat'"),
        ("DROP VECTOR INDEX nix", NotFoundError, "see SHOW VECTOR INDEXES"),
    ],
)
def test_wrong_statements(session: Session, sql: str, kind: type[FlightLLMError], said: str) -> None:
    """Each says what there is instead, and changes nothing."""
    with pytest.raises(kind, match=said):
        session.update(sql)
    assert [row["name"] for row in rows(session, "SHOW VECTOR INDEXES")] == ["names"]
    session.update("DROP VECTOR INDEX IF EXISTS nix")


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
        with pytest.raises(SqlError, match="columns of one table"):
            rows(session, f"SELECT * FROM {source}")
        return
    assert [row["id"] for row in rows(session, f"SELECT fruit.id FROM {source}")] == [2]
    assert [row["id"] for row in rows(session, f"WITH w AS (SELECT 1) SELECT fruit.id FROM {source}")] == [2]


@pytest.mark.parametrize(
    ("join", "said"),
    [
        ("people ON vector_search('names', f.name)", "not 'people'"),
        ("(SELECT 1) AS x ON vector_search('names', f.name)", "joins a table by its name"),
        ("fruit g ON vector_search('names')", "takes the name of an index and what to search for"),
        ("fruit g ON vector_search('nix', f.name)", "no vector index 'nix'"),
        ("fruit g ON vector_search('names', ai_gen('x', f.name))", "without AI calls"),
    ],
)
def test_wrong_joins(session: Session, join: str, said: str) -> None:
    """The error says what to write instead."""
    with pytest.raises(FlightLLMError, match=said):
        rows(session, f"SELECT * FROM fruit f JOIN {join}")


BY_LIKENESS = "SELECT id FROM fruit {where} ORDER BY ai_similarity(name, 'an apple') DESC{nulls} LIMIT {limit}"


@pytest.mark.parametrize(
    ("where", "nulls", "limit", "uses"),
    [
        ("", " NULLS LAST", 2, True),
        ("WHERE id > 1 AND name LIKE 'a%'", " NULLS LAST", 2, True),
        ("WHERE id > 1 AND ai_filter('good', name)", " NULLS LAST", 2, False),
        ("WHERE name IS NOT NULL", " NULLS LAST", "2 OFFSET 1", True),
        ("", "", 2, False),
        ("", " NULLS LAST", 6, False),
    ],
)
def test_order_by_likeness(session: Session, where: str, nulls: str, limit: object, uses: bool) -> None:
    """An index that fits finds the first rows; they are those that all rows, compared one by one, would give."""
    sql = BY_LIKENESS.format(where=where, nulls=nulls, limit=limit)
    told = rows(session, f"EXPLAIN {sql}")
    assert ("nearest_by_index" in told[0]["plan"]) is uses
    assert any(line["plan_type"] == "vector index names" for line in told) is uses
    found = rows(session, sql)
    session.update("DROP VECTOR INDEX names")
    assert rows(session, sql) == found


def test_a_stale_index_is_not_used(session: Session) -> None:
    """New rows are found at once."""
    session.update("INSERT INTO fruit VALUES (9, 'an apple')")
    sql = BY_LIKENESS.format(where="", nulls=" NULLS LAST", limit=1)
    assert rows(session, sql) == [{"id": 9}]
    session.update("REFRESH VECTOR INDEX names")
    assert rows(session, sql) == [{"id": 9}]
    assert "nearest_by_index" in rows(session, f"EXPLAIN {sql}")[0]["plan"]


@pytest.mark.parametrize("kind", ["flat", "ivf', lists '16', probes '1", "hnsw', neighbors '4', search_depth '4"])
def test_order_by_likeness_of_many(session: Session, kind: str) -> None:
    """No index returns fewer rows than the LIMIT, nor other rows where a second key decides between equal ones."""
    name = "CASE WHEN value % 3 = 0 THEN 'the same note' ELSE concat('note ', value) END"
    session.update(f"CREATE TABLE notes AS SELECT value AS id, {name} AS name FROM generate_series(1, 600)")
    count, sql = "SELECT count(*) AS n FROM ({})", BY_LIKENESS.replace("fruit", "notes")
    ties = sql.format(where="", nulls=" NULLS LAST, id DESC", limit=20)
    nearest = sql.format(where="", nulls=" NULLS LAST", limit=3)
    wanted = rows(session, ties)
    scores = "SELECT ai_similarity(name, 'an apple') AS score FROM notes WHERE id IN ({}) ORDER BY 1"
    near = rows(session, scores.format(nearest))
    session.update(f"CREATE VECTOR INDEX notes ON notes(name) OPTIONS (type '{kind}')")
    assert rows(session, ties) == wanted
    assert rows(session, count.format(sql.format(where="", nulls=" NULLS LAST", limit=300))) == [{"n": 300}]
    if kind == "flat":
        assert "nearest_by_index" in rows(session, f"EXPLAIN {nearest}")[0]["plan"]
        assert rows(session, scores.format(nearest)) == near


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
        ("true) UNION ALL SELECT 9999 WHERE (true", "a condition over the index's columns is wanted"),
        ("true) LIMIT (1", "a condition over the index's columns is wanted"),
        ("id IN (SELECT 1)", "a condition over the index's columns is wanted"),
        (" OR ".join(["id = 1"] * 3_000), r"\[limits\] sql_terms"),
        ("price < 3", "price"),
    ],
)
def test_filters_are_conditions(session: Session, condition: str, said: str) -> None:
    """What is more than a condition, or too long for a plan, is refused before anything is searched."""
    with pytest.raises(FlightLLMError, match=said):
        rows(session, f"SELECT vector_search('names', 'x', filter => '{condition}')")


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


def test_one_change_at_a_time(session: Session, tmp_path: Path) -> None:
    """While one statement changes an index, others that would are refused, in other processes too."""
    with VectorIndexes(tmp_path / "vectors").changing("names"):
        for statement in ("REFRESH VECTOR INDEX names", "DROP VECTOR INDEX names"):
            with pytest.raises(InvalidInputError, match="by another statement; try again"):
                session.update(statement)
    session.update("REFRESH VECTOR INDEX names")


@pytest.mark.parametrize("name", ['""', "x" * 200])
def test_names(session: Session, name: str) -> None:
    """A name that no folder can have is refused."""
    with pytest.raises(InvalidInputError, match="1 to 80 bytes"):
        session.update(f"CREATE VECTOR INDEX {name} ON fruit(name)")


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
    with pytest.raises(AICallError, match="is a list, a text is wanted"):
        rows(session, f"SELECT vector_search('names', {query})")


def test_view_of_any_name(session: Session) -> None:
    """No name of a view over a search meets those that searches use themselves."""
    session.update("CREATE VIEW near AS SELECT id FROM vector_search('names', 'apple pie', top_k => 1)")
    assert rows(session, "SELECT * FROM near") == [{"id": 6}]
    assert rows(session, "SELECT vector_search('names', 'apple pie', top_k => 1)[1]['id'] AS near") == [{"near": 6}]
