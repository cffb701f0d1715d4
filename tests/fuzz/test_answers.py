"""Ten thousand broken responses of endpoints: each costs its own rows, never the query, another row or the cache.

Tests that are not slow send a tenth of them. They come from a real HTTP server through the real engines, in queries
that a client could send.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.session.database import Database
from tests.broken_answers import CAP, answer, broken_endpoint, named_rows, question, vector
from tests.databases import Ran, ask

OPTIONS: dict[str, Any] = {"max_retries": 0, "response_bytes": CAP, "timeout": 60.0}
_LONG = (pytest.mark.slow, pytest.mark.timeout(600))
TEXT = "SELECT id, ai_gen('Name the row.', note, on_error => 'struct') AS a FROM notes"


def opened(folder: Path, rows: int, engine: EngineConfig, embedding: EmbeddingConfig | None = None) -> Database:
    """Open a database with a table of rows to ask about."""
    given = {} if embedding is None else {"embedding": embedding}
    database = Database.open(Config(engine=engine, data_folder=folder, **given))  # type: ignore[arg-type]
    database.session().update(
        f"CREATE TABLE notes AS SELECT value AS id, concat('{question(0)[:-2]}', value, '!') AS note"
        f" FROM range(0, {rows})"
    )
    return database


def check_texts(ran: Ran, rows: int) -> int:
    """Check that each row has an error or an answer that is not another row's; return how many are right."""
    assert sorted(row["id"] for row in ran.rows) == list(range(rows))
    right = 0
    for row in ran.rows:
        value, error = row["a"]["value"], row["a"]["error"]
        assert (value is None) != (error is None), row
        assert error is None or "internal" not in error, row
        if value is not None:
            assert named_rows(value) <= {row["id"]}, row
            assert "CONTENT_FILTER" not in value
            right += value == answer(row["id"])
    figures = ran.record.row()
    assert figures["status"] == "done"
    assert rows <= figures["calls"] <= 1.5 * rows  # some forms are asked again, and a row that fails last takes a probe
    assert figures["failed_rows"] == sum(row["a"]["error"] is not None for row in ran.rows)
    assert 0 <= figures["cached_tokens"] <= figures["prompt_tokens"] < rows << 31
    assert 0 <= figures["completion_tokens"] < rows << 31
    return right


def check_cache(folder: Path, database: Database, rows: int) -> None:
    """Check that the cache has no answer that was cut or filtered, and gives each row its own."""
    database.close()
    with closing(sqlite3.connect(folder / "answers.sqlite")) as kept:
        texts = [text for (text,) in kept.execute("SELECT text FROM answers")]
    assert len(texts) >= rows // 20
    assert not [text for text in texts if "LENGTH" in text or "CONTENT_FILTER" in text]
    assert all(len(named_rows(text)) <= 1 for text in texts)


def checked(folder: Path, rows: int, engine: EngineConfig) -> None:
    """Ask about all rows, then again from the cache alone where it can, and check both."""
    database = opened(folder, rows, engine)
    try:
        first = ask(database.session(), TEXT)
        right = check_texts(first, rows)
        assert rows // 20 < right < rows  # some bodies are right, or break what nobody reads
        again = ask(database.session(), TEXT)
        kept = {row["id"]: row["a"]["value"] for row in first.rows if row["a"]["value"] is not None}
        assert sum(row["a"]["value"] == kept.get(row["id"]) for row in again.rows if row["id"] in kept) >= right * 0.9
        assert all(named_rows(row["a"]["value"] or "") <= {row["id"]} for row in again.rows)
        [figures] = ask(database.session(), "SELECT * FROM system.cache").rows
        assert figures["failures"] == 0
    finally:
        check_cache(folder, database, rows)


@pytest.mark.parametrize(
    ("per_request", "rows", "least"),
    [
        pytest.param(1, 240, 300, id="some-chat"),
        pytest.param(3, 600, 300, id="some-completions", marks=pytest.mark.slow),
        pytest.param(1, 1_700, 2_500, id="chat", marks=_LONG),
        pytest.param(3, 5_000, 2_500, id="completions", marks=_LONG),
    ],
)
def test_texts(tmp_path: Path, per_request: int, rows: int, least: int) -> None:
    """Chat and lists of prompts: bodies that are broken in any way are errors of their rows."""
    with broken_endpoint(per_request) as endpoint:
        options = {**OPTIONS, "base_url": endpoint.url, "prompts_per_request": per_request}
        checked(tmp_path, rows, EngineConfig("openai", "any", 64, options))
        assert endpoint.mutated >= least
        assert len(endpoint.sent) > 20


@pytest.mark.parametrize(
    ("rows", "least"), [pytest.param(90, 60, id="some"), pytest.param(3_300, 2_500, id="all", marks=_LONG)]
)
def test_routed(tmp_path: Path, rows: int, least: int) -> None:
    """The same through a router over two endpoints, with several prompts in a request: no replica is lost."""
    with broken_endpoint(11) as one, broken_endpoint(12) as other:
        replica = {**OPTIONS, "kind": "openai", "prompts_per_request": 2, "tokenizer": "demo"}
        replicas = [{"base_url": one.url}, {"base_url": other.url}]
        options = {"replica": replica, "replicas": replicas, "policy": "e2_batch"}
        checked(tmp_path, rows, EngineConfig("cluster", "any", 32, options))
        assert one.mutated + other.mutated >= least
        assert min(one.mutated, other.mutated) > least // 10


@pytest.mark.parametrize(
    ("rows", "least"), [pytest.param(270, 150, id="some"), pytest.param(2_700, 2_500, id="all", marks=_LONG)]
)
def test_vectors(tmp_path: Path, rows: int, least: int) -> None:
    """A vector is its row's own and of the model's length, or an error; lists that fail are asked by row."""
    sql = "SELECT id, ai_embed(note, on_error => 'struct') AS a FROM notes"
    with broken_endpoint(21) as endpoint:
        embedding = EmbeddingConfig("openai", "any", options={**OPTIONS, "base_url": endpoint.url, "batch": 4})
        database = opened(tmp_path, rows, EngineConfig("fake", "demo", 8, {}), embedding)
        try:
            ran = ask(database.session(), sql)
            right = 0
            for row in ran.rows:
                value, error = row["a"]["value"], row["a"]["error"]
                assert (value is None) != (error is None), row
                if value is not None:
                    assert len(value) == 4
                    consistent = value[1:] == [-value[0], 2 * value[0], 4.0]
                    assert not consistent or value == vector(row["id"]), row
                    right += consistent
            assert len(ran.rows) == rows
            assert rows // 20 < right < rows
            assert endpoint.mutated >= least
        finally:
            database.close()
