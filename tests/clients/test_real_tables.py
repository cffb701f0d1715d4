"""Real tables, engines and embeddings: a server process, an ADBC client, queries over joined reviews, and retrieval."""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from flightllm.demo.process import running_server

pytestmark = pytest.mark.slow

TABLES = ("movies", "movie_reviews", "squad_contexts", "squad_questions")
JOINED = "FROM movies m JOIN movie_reviews r USING (movie_id) WHERE m.movie_id IN (5, 6, 8, 10, 14, 15, 19)"
"""Some 300 rows; a review in ten is NULL."""
MANY_FILMS = "FROM movies m JOIN movie_reviews r USING (movie_id) WHERE m.movie_id <= 80 AND r.top_critic"
"""Some 650 rows of 43 films."""
FOUND = """
SELECT avg(CASE WHEN array_has(near, context_id) THEN 1.0 ELSE 0.0 END) AS share FROM (
    SELECT context_id, vector_search('contexts', question, mode => '{mode}', returning => 'context_id') AS near
    FROM squad_questions)
"""
ANSWERS = """
SELECT q.question_id, ai_gen('Answer from the contexts.', q.question,
    contexts => vector_search('contexts', q.question, returning => 'context'), max_tokens => 8,
    on_truncated => 'keep') AS answer
FROM squad_questions q WHERE q.context_id % 40 = 0
"""
FIGURES = """
SELECT q.rows, q.calls, q.distinct_prompts, q.cached_tokens, q.prompt_tokens, q.failed_rows, a.asked
FROM system.queries q JOIN (SELECT query_id, sum(rows) AS asked FROM system.ai_calls GROUP BY query_id) a
ON q.query_id = a.query_id WHERE q.sql = ? AND q.status = 'done'
"""
ENGINES = {"local": "torch", "vllm": "vllm"}
"""Each kind of engine and the package it needs."""


@pytest.fixture(scope="module")
def tables() -> Mapping[str, Path]:
    """Return the files of the tables."""
    folder = os.environ.get("FLIGHTLLM_DATA")
    if not folder:
        pytest.skip("FLIGHTLLM_DATA is not set: it names a folder with the tables")
    paths = {name: Path(folder, f"{name}.parquet") for name in TABLES}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        pytest.skip(f"FLIGHTLLM_DATA has no {' and no '.join(missing)}")
    return paths


@pytest.fixture(scope="module", params=["local", pytest.param("vllm", marks=pytest.mark.vllm)])
def cursor(request: pytest.FixtureRequest, tables: Mapping[str, Path]) -> Iterator[Any]:
    """Connect to a server of the engine with the tables."""
    if find_spec(ENGINES[request.param]) is None:
        pytest.skip(f"the engine {request.param!r} is not installed")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")  # several would wait for each other on a busy machine
        with (
            running_server(["--engine", request.param], tables, ready_seconds=600) as server,
            flight_sql.connect(server.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor


@pytest.fixture(scope="module")
def indexed(cursor: Any) -> Any:
    """Return the cursor, with an index over the contexts of questions."""
    for package in ("faiss", "tantivy", "sentence_transformers"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    cursor.execute("CREATE VECTOR INDEX contexts ON squad_contexts(context)")
    return cursor


def rows_of(cursor: Any, sql: str, *parameters: object) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    cursor.execute(sql, parameters or None)
    rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
    return rows


def asked(cursor: Any, sql: str, failing: float = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run an AI query, of whose rows a share may have no answer; return its rows and what the server says it took."""
    rows = rows_of(cursor, sql)
    (figures,) = rows_of(cursor, FIGURES, sql)
    assert figures["rows"] == len(rows)
    assert 0 < figures["cached_tokens"] < figures["prompt_tokens"]
    assert figures["failed_rows"] <= failing * len(rows)
    assert figures["calls"] == figures["distinct_prompts"]
    return rows, figures


def test_projection(cursor: Any) -> None:
    """Every row comes back, with an answer just where there is a review, and equal rows are asked about once."""
    prompt = "ai_gen('Recommend it?', m.movie_info, r.review_content, max_tokens => 4, on_truncated => 'keep')"
    rows, figures = asked(
        cursor, f"SELECT r.review_id, r.review_content AS review, {prompt} AS answer {JOINED}", failing=0.02
    )
    plain = rows_of(cursor, f"SELECT r.review_id, r.review_content, m.movie_info {JOINED}")
    assert sorted(row["review_id"] for row in rows) == sorted(row["review_id"] for row in plain)
    without = [row["review"] is None for row in rows if row["answer"] is None]
    assert without.count(True) == sum(row["review"] is None for row in rows)
    assert without.count(False) == figures["failed_rows"]
    with_review = {(row["movie_info"], row["review_content"]) for row in plain if row["review_content"] is not None}
    assert 250 < figures["calls"] == len(with_review) < len(plain)


def test_filter_beside_a_plain_predicate(cursor: Any) -> None:
    """Only rows that pass the plain predicate are asked about."""
    prompt = "ai_filter('Is the review fair?', m.movie_info, r.review_content)"
    rows, figures = asked(cursor, f"SELECT r.review_id {JOINED} AND {prompt} AND r.top_critic")
    ((plain,),) = [row.values() for row in rows_of(cursor, f"SELECT count(*) {JOINED} AND r.top_critic")]
    everything = len(rows_of(cursor, f"SELECT r.review_id {JOINED}"))
    assert len(rows) <= figures["calls"] <= plain < everything


def test_several_calls(cursor: Any) -> None:
    """A call about the film alone is made once for each film, and later calls only for rows that pass the filter."""
    film = "ai_filter('Is the film a comedy?', m.movie_info)"
    whom = "ai_gen('Who is it for?', m.movie_info, max_tokens => 4, on_truncated => 'keep') AS whom"
    calls = f"{whom}, ai_sentiment(r.review_content) AS mood"
    rows, figures = asked(
        cursor,
        f"SELECT m.movie_info AS film, r.review_content AS review, {calls} {MANY_FILMS} AND {film}",
        failing=0.02,
    )
    films = rows_of(cursor, f"SELECT DISTINCT m.movie_info {MANY_FILMS} AND m.movie_info IS NOT NULL")
    passing, reviews = ({row[name] for row in rows} - {None} for name in ("film", "review"))
    assert 0 < len(passing) < len(films)
    assert figures["calls"] == len(films) + len(passing) + len(reviews) < figures["asked"]
    assert {row["mood"] for row in rows} <= {"positive", "negative", "neutral", "mixed", None}


def test_average_by_group(cursor: Any) -> None:
    """Each group gets one average of scores within their range."""
    score = "ai_score('How pleased is the writer?', m.movie_info, r.review_content)"
    rows, figures = asked(cursor, f"SELECT m.genre, avg({score}) AS score {JOINED} GROUP BY m.genre")
    groups = rows_of(cursor, f"SELECT DISTINCT m.genre {JOINED}")
    assert {row["genre"] for row in rows} == {row["genre"] for row in groups}
    assert all(0 <= row["score"] <= 10 for row in rows)
    assert figures["calls"] > 250


def test_retrieval(indexed: Any) -> None:
    """The context that answers a question is among three found for most, for no fewer by meaning and words together."""
    shares = {mode: rows_of(indexed, FOUND.format(mode=mode))[0]["share"] for mode in ("vector", "text", "hybrid")}
    assert min(shares.values()) >= 0.8
    assert shares["hybrid"] >= max(shares["vector"], shares["text"])


def test_answers_from_contexts(indexed: Any) -> None:
    """Every question is answered once from the contexts found for it, which are fields of its prompt."""
    answers = rows_of(indexed, ANSWERS)
    assert len(answers) == len({row["question_id"] for row in answers}) > 20
    [query] = rows_of(indexed, "SELECT calls, failed_rows FROM system.queries WHERE sql = ?", ANSWERS)
    assert query == {"calls": len(answers), "failed_rows": 0}
    shown = rows_of(indexed, f"EXPLAIN {ANSWERS}")
    assert any(line["plan_type"] == "vector index contexts" and "ready" in line["plan"] for line in shown)
