"""Vector indexes in SQL: built, refreshed, damaged, dropped; what is wrong is said."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import EngineError, FlightLLMError, InternalError, InvalidInputError, NotFoundError, SqlError
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.vector.store import VectorIndexes
from tests.databases import rows
from tests.endpoints import Body, Reply, endpoint_of, refuse
from tests.indexes import FRUIT, indexed, open_database
from tests.packages import needs

pytestmark = needs("faiss", "tantivy", extra="vector")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with a table and an index over it."""
    with indexed(tmp_path) as session:
        yield session


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
    first = open_database(tmp_path)
    session = first.session()
    session.update(FRUIT)
    session.update("CREATE VECTOR INDEX names ON fruit(name)")
    first.close()
    second = open_database(tmp_path)
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
    first = open_database(tmp_path)
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
        with pytest.raises(SqlError, match="was built with the embedding model 'minilm', but this server has 'other'"):
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
        ("[1.0, 2.0, 3.0]", "vectors of 2 numbers, but the query vector has 3"),
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
        ("CREATE VECTOR INDEX i ON fruit(id)", InvalidInputError, "index a text column, or a column of lists"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (model 'x')", InvalidInputError, "no embedding model 'x'"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (columns 'a')", NotFoundError, "no column 'a'"),
        ("CREATE VECTOR INDEX i ON fruit(name) OPTIONS (type 'ivfpq')", InvalidInputError, "use type 'flat'"),
        ("DROP VECTOR INDEX nix", NotFoundError, "see SHOW VECTOR INDEXES"),
    ],
)
def test_wrong_statements(session: Session, sql: str, kind: type[FlightLLMError], said: str) -> None:
    """Each says what there is instead, and changes nothing."""
    with pytest.raises(kind, match=said):
        session.update(sql)
    assert [row["name"] for row in rows(session, "SHOW VECTOR INDEXES")] == ["names"]
    session.update("DROP VECTOR INDEX IF EXISTS nix")


def test_one_change_at_a_time(session: Session, tmp_path: Path) -> None:
    """While one statement changes an index, others that would are refused, in other processes too."""
    with VectorIndexes(tmp_path / "vectors").changing("names"):
        for statement in ("REFRESH VECTOR INDEX names", "DROP VECTOR INDEX names"):
            with pytest.raises(InvalidInputError, match="is building, refreshing or dropping the vector"):
                session.update(statement)
    session.update("REFRESH VECTOR INDEX names")


@pytest.mark.parametrize("name", ['""', "x" * 200])
def test_names(session: Session, name: str) -> None:
    """A name that no folder can have is refused."""
    with pytest.raises(InvalidInputError, match="1 to 80 bytes"):
        session.update(f"CREATE VECTOR INDEX {name} ON fruit(name)")


def test_drop_of_tables_with_an_index_that_stays(session: Session, tmp_path: Path) -> None:
    """DROP TABLE removes the other indexes of its tables if one cannot be dropped, and then raises the error."""
    session.update("CREATE TABLE more AS SELECT * FROM fruit")
    for name, table in (("last", "more"), ("other", "fruit")):
        session.update(f"CREATE VECTOR INDEX {name} ON {table}(name)")
    locked = tmp_path / "vectors" / "index-names.lock"
    locked.unlink()
    locked.mkdir()
    with pytest.raises(InternalError, match="cannot write"):
        session.update("DROP TABLE fruit, more")
    assert [path.parent.name for path in (tmp_path / "vectors").glob("*/manifest.json")] == ["index-names"]
    assert rows(session, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") == []


def embed_short(_: str, body: Body, __: int) -> Reply:
    """Answer texts of up to 60 characters by how many `a` and `e` they have; refuse longer and empty ones."""
    if any(len(text) > 60 or not text.strip() for text in body["input"]):
        return refuse(400, "This model's maximum context length is 60 tokens")
    numbers = [[1.0 + text.count("a"), 1.0 + text.count("e")] for text in body["input"]]
    return 200, {"data": [{"index": place, "embedding": one} for place, one in enumerate(numbers)]}, {}


def test_texts_that_cannot_be_embedded(tmp_path: Path) -> None:
    """They fail the statement, which names the row; with on_error 'null' the index has all other rows."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    with endpoint_of(embed_short) as endpoint:
        options = {"base_url": endpoint.url, "max_retries": 0}
        embedding = EmbeddingConfig("openai", "m", options=options)
        with closing(
            Database.open(Config(engine=EngineConfig("fake"), embedding=embedding, data_folder=tmp_path))
        ) as database:
            session = database.session()
            session.update(f"{FRUIT} UNION ALL VALUES (7, rpad('long ', 70, 'a')), (8, '')")
            failed = (
                "the row with name = 'long a{34} …, id = 7 has no vector: .*maximum context length.*on_error 'null'"
            )
            with pytest.raises(EngineError, match=failed):
                session.update("CREATE VECTOR INDEX names ON fruit(name) OPTIONS (columns 'id')")
            assert rows(session, "SHOW VECTOR INDEXES") == []
            create = "CREATE OR REPLACE VECTOR INDEX names ON fruit(name) OPTIONS (on_error 'null')"
            assert session.update(create) == 5
            state = "SELECT rows, nulls, failed, options, status FROM system.vector_indexes"
            known = {"rows": 5, "nulls": 1, "failed": 2, "options": '{"on_error": "null"}', "status": "ready"}
            assert rows(session, state) == [known]
            [found] = rows(session, "SELECT vector_search('names', 'aaaa', top_k => 20) AS near")
            assert sorted(row["id"] for row in found["near"]) == [1, 2, 4, 5, 6]
            for search in ("text_search('names', 'long')", "vector_search('names', 'long', mode => 'hybrid')"):
                [found] = rows(session, f"SELECT {search} AS near")
                assert 7 not in {row["id"] for row in found["near"]}
            session.update("INSERT INTO fruit VALUES (9, 'a fig'), (10, rpad('', 80, 'e')), (11, NULL)")
            assert session.update("REFRESH VECTOR INDEX names") == 6
            assert rows(session, state) == [known | {"rows": 6, "nulls": 2, "failed": 3}]
            session.update("DELETE FROM fruit WHERE id IN (1, 7)")
            assert session.update("REFRESH VECTOR INDEX names") == 5
            assert rows(session, state) == [known | {"rows": 5, "nulls": 2, "failed": 2}]
            nearest = "SELECT id FROM fruit ORDER BY ai_similarity(name, 'eee') DESC NULLS LAST, id LIMIT 20"
            assert {row["id"] for row in rows(session, nearest)} == {2, 3, 4, 5, 6, 8, 9, 10, 11}
            session.update("CREATE TABLE long AS SELECT 1 AS id, rpad('', 80, 'a') AS t")
            with pytest.raises(EngineError, match="rejected all 1 texts"):
                session.update("CREATE VECTOR INDEX none ON long(t) OPTIONS (on_error 'null')")


def test_what_on_error_means_nothing_for(session: Session) -> None:
    """Vectors that a table holds are not embedded, so the option is refused, as is another value of it."""
    session.update("CREATE TABLE points AS SELECT 1 AS id, [0.5, 1.0] AS v")
    with pytest.raises(InvalidInputError, match="on_error is for an index over texts"):
        session.update("CREATE VECTOR INDEX points ON points(v) OPTIONS (on_error 'null')")
    with pytest.raises(InvalidInputError, match="on_error of a vector index must be one of fail, null, not 'skip'"):
        session.update("CREATE OR REPLACE VECTOR INDEX names ON fruit(name) OPTIONS (on_error 'skip')")
