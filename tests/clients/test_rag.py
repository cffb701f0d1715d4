"""Retrieval and generation with real tables, embeddings and engines: a server process and an ADBC client."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from flightllm.demo.process import running_server
from tests.clients.test_real_tables import ENGINES, rows_of

TABLES = ("squad_contexts", "squad_questions")
FOUND = """
SELECT avg(CASE WHEN array_has(near, context_id) THEN 1.0 ELSE 0.0 END) AS share FROM (
    SELECT context_id, vector_search('contexts', question, mode => '{mode}', returning => 'context_id') AS near
    FROM squad_questions)
"""
ANSWERS = """
SELECT q.question_id, ai_gen('Answer from the contexts.', q.question,
    contexts => vector_search('contexts', q.question, returning => 'context'), max_tokens => 8) AS answer
FROM squad_questions q WHERE q.context_id % 40 = 0
"""


@pytest.fixture(scope="module", params=ENGINES)
def cursor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Connect to a server of the engine with questions and an index over their contexts."""
    for package in (ENGINES[request.param], "faiss", "tantivy", "sentence_transformers"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folder = os.environ.get("FLIGHTLLM_DATA")
    if not folder:
        pytest.skip("FLIGHTLLM_DATA is not set: it names a folder with squad_contexts and squad_questions")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")  # several would wait for each other on a busy machine
        tables = {name: Path(folder, f"{name}.parquet") for name in TABLES}
        with (
            running_server(["--engine", request.param], tables, ready_seconds=180) as server,
            flight_sql.connect(server.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("CREATE VECTOR INDEX contexts ON squad_contexts(context)")
            yield cursor


def test_retrieval(cursor: Any) -> None:
    """The context that answers a question is among three found for most, for no fewer by meaning and words together."""
    shares = {mode: rows_of(cursor, FOUND.format(mode=mode))[0]["share"] for mode in ("vector", "text", "hybrid")}
    assert min(shares.values()) >= 0.8
    assert shares["hybrid"] >= max(shares["vector"], shares["text"])


def test_answers_from_contexts(cursor: Any) -> None:
    """Every question is answered once from the contexts found for it, which are fields of its prompt."""
    answers = rows_of(cursor, ANSWERS)
    assert len(answers) == len({row["question_id"] for row in answers}) > 20
    [query] = rows_of(cursor, "SELECT calls, failed_rows FROM system.queries WHERE sql = ?", ANSWERS)
    assert query == {"calls": len(answers), "failed_rows": 0}
    shown = rows_of(cursor, f"EXPLAIN {ANSWERS}")
    assert any(line["plan_type"] == "vector index contexts" and "ready" in line["plan"] for line in shown)
