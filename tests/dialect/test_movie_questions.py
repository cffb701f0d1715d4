"""Ten questions about reviews of movies, as SemBench asks them in three dialects, run as pasted."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.engines import random_answers
from flightllm.engines.fake import engine as fake
from flightllm.session.session import Session
from tests.databases import ask, small_database

_TAKEN, _ANT = "'taken_3'", "'ant_man_and_the_wasp_quantumania'"
_SAME = "These two movie reviews express the same sentiment - either both are positive or both are negative"
_OPPOSITE = "These two movie reviews express opposite sentiments - one is positive and the other is negative"
_RUBRICS = (
    "Score from 1 to 5 how much did the reviewer like the movie based on provided rubrics.\n\nRubrics:\n5: Very"
    " positive. \n1: Very negative. Strong negative sentiment, indicating high dissatisfaction.\n\nReview: "
)
_PLUMBING = (
    """connection_id => 'us.c', model_params => JSON '{"labels":{"query_uuid": "1"}, "generation_config":"""
    """{"thinking_config": {"thinking_budget": 0}}}' , endpoint => 'gemini-2.5-flash'"""
)


def _asked(one: str, pair: str, score: str, quoted: str, table: str, count: str) -> list[str]:
    """Return the ten questions; `pair` has the place of its statement."""
    same = "=" if score else "=="  # as Flock's texts have it
    key, review = f"{quoted}id{quoted}", f"{quoted}reviewId{quoted}"
    pairs = (
        f"SELECT r1.{key}, r1.{review}, r2.{review} FROM {table} AS r1 JOIN {table} AS r2 ON r1.{key} = r2.{key}"
        f" AND r1.{review} <> r2.{review} WHERE r1.{key} = {_ANT} AND {pair}"
    )
    labelled = f"SELECT CASE WHEN {one} THEN 'POSITIVE' ELSE 'NEGATIVE' END AS sentiment_label FROM {table} AS r"
    grouped = f"{labelled} WHERE r.{key} = {_TAKEN}"
    found = [
        f"SELECT {review} FROM {table} AS r WHERE {one} LIMIT 5",
        f"SELECT {review} FROM {table} AS r WHERE r.{key} = {_TAKEN} AND {one} LIMIT 5",
        f"SELECT COUNT(*) AS positive_review_cnt FROM {table} AS r WHERE r.{key} {same} {_TAKEN} AND {one}",
        f"SELECT {count} AS positivity_ratio FROM {table} AS r WHERE {key} = {_TAKEN}",
        f"{pairs.format(_SAME)} LIMIT 10",
        f"{pairs.format(_OPPOSITE)} LIMIT 10",
        pairs.format(_OPPOSITE),
        f"SELECT sentiment_label AS scoreSentiment, COUNT(*) AS count\nFROM ({grouped}) AS r GROUP BY sentiment_label;",
    ]
    if score:
        found.append(f"SELECT {review}, {score} AS reviewScore FROM {table} WHERE {key} = {_ANT}")
        scored = f"SELECT {key}, {score} AS score FROM {table}"
        found.append(f"SELECT {key} AS movieId, AVG(score) AS movieScore\nFROM (\n{scored}\n)\nGROUP BY {key};\n")
    return found


_CLEAR = "AI_FILTER(CONCAT('The review is clearly positive: ', \"reviewText\"))"
SNOWFLAKE = _asked(
    _CLEAR,
    'AI_FILTER(PROMPT(\'{}. Review 1: {{0}} Review 2: {{1}}\', r1."reviewText", r2."reviewText"))',
    f"CAST(AI_COMPLETE('llama4-maverick', CONCAT('{_RUBRICS}', \"reviewText\")) AS INT)",
    '"',
    "reviews",
    f"CAST(SUM(CASE WHEN {_CLEAR} THEN 1 ELSE 0 END) AS FLOAT) / COUNT(*)",
)
_IF = f"AI.IF(('Determine if the following movie review is clearly positive, review: ', r.reviewText), {_PLUMBING})"
_BRACES = _PLUMBING.replace("{", "{{").replace("}", "}}")
BIGQUERY = _asked(
    _IF,
    f"AI.IF(('{{}}. Review 1: ', r1.reviewText, ', Review 2: ', r2.reviewText), {_BRACES})",
    f'AI.SCORE(("""\n  {_RUBRICS}\n  """, reviewText), {_PLUMBING})',
    "",
    "movie.reviews",
    f"CAST(SUM(CASE WHEN {_IF} THEN 1 ELSE 0 END) AS FLOAT64) / COUNT(*)",
)
_FLOCK = "llm_filter({'model_name': 'gpt-4o'}, {'prompt': 'The review is clearly positive.'}, {'review': r.reviewText})"
FLOCK = _asked(
    _FLOCK,
    "llm_filter({{'model_name': 'gpt-4o'}}, {{'prompt': '{}'}},"
    " {{'review1': r1.reviewText, 'review2': r2.reviewText}})",
    "",
    "",
    "reviews_2000",
    f"AVG(CASE WHEN {_FLOCK} THEN 1 ELSE 0 END)",
)
_ALL = [("snowflake", one) for one in SNOWFLAKE] + [("bigquery", one) for one in BIGQUERY]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open reviews, whose columns keep their capitals, under the three names; a free text of the model is a number."""
    with pytest.MonkeyPatch.context() as patch:
        real = random_answers.answerer

        def numbers(constraint: Any, *rest: Any) -> Any:
            return (lambda number: str(1 + number % 5)) if constraint is None else real(constraint, *rest)

        patch.setattr(fake, "answerer", numbers)
        database = small_database(tmp_path_factory.mktemp("movies"))
        made = database.session()
        rows = ", ".join(f"({key}, {number}, 'review {number}')" for number, key in enumerate([_TAKEN, _ANT] * 4))
        made.update(f'CREATE TABLE reviews AS SELECT * FROM (VALUES {rows}) AS v("id", "reviewId", "reviewText")')
        made.update("CREATE TABLE reviews_2000 AS SELECT * FROM reviews")
        made.update("CREATE SCHEMA movie")
        made.update("CREATE TABLE movie.reviews AS SELECT * FROM reviews")
        for model in ("llama4-maverick", "gemini-2.5-flash", "gpt-4o"):
            made.update(f"CREATE MODEL \"{model}\" OPTIONS (engine 'fake', model 'x')")
        yield made
        database.close()


@pytest.mark.parametrize(("dialect", "sql"), [*_ALL, *(("duckdb", one) for one in FLOCK)])
def test_runs(session: Session, dialect: str, sql: str) -> None:
    """Each question has rows of the right reviews."""
    found = ask(session, sql, dialect=dialect).rows
    scores = [value for row in found for name, value in row.items() if name.casefold() in {"reviewscore", "moviescore"}]
    assert all(1 <= score <= 5 for score in scores)
    assert found or "LIMIT" in sql or "r1" in sql
