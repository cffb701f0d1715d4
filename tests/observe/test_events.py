"""Log events: each says whose it is, in every thread that works for a statement, and none shows what is in rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_manager import Error

from flightllm.config import LimitsConfig, LogConfig
from flightllm.log import configure_logging
from tests.servers import ask, cursor_of, serving

Events = list[dict[str, Any]]


def _events(capsys: pytest.CaptureFixture[str]) -> Events:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_every_thread_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], optimizer: str) -> None:
    """Prompts, sent from threads of ours or of DataFusion, carry the query's id, user and session."""
    configure_logging(LogConfig(level="debug", format="json"))
    with serving(tmp_path) as server, cursor_of(server) as cursor:
        cursor.execute(f"SET flightllm.optimizer = '{optimizer}'")
        capsys.readouterr()
        ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 5")
        cursor.execute("CREATE TABLE u AS SELECT ai_gen('And of {n}?', n) AS a FROM t WHERE n <= 5")
    events = _events(capsys)
    done = [event for event in events if event["event"] == "query done"]
    assert [event["kind"] for event in done] == ["query", "create_table_as"]
    for event, prompt in zip(done, ("Of", "And of"), strict=True):
        sent = [e for e in events if e["event"] == "prompt sent" and e["prompt"].startswith(prompt)]
        assert len(sent) == 5
        whose = {(e["query_id"], e["user"], e["session_id"]) for e in sent}
        assert whose == {(event["query_id"], "local", event["session_id"])}


def test_one_event_with_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However a statement ends there is one event of its end, with the figures that `system.queries` has."""
    configure_logging(LogConfig(format="json"))
    with serving(tmp_path, LimitsConfig(result_bytes=100)) as server:
        with cursor_of(server) as cursor:
            ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 2")
            with pytest.raises(Error):
                ask(cursor, "SELECT n FROM t")
            cursor.adbc_ingest("up", cursor.execute("SELECT 1 AS a").fetch_arrow_table())
        database: Any = server._core.database
        while server._core.slots.running:
            pass
        rows = {row["query_id"]: row for row in database.queries.snapshot("queries").to_pylist()}
    done = [event for event in _events(capsys) if event["event"] == "query done"]
    assert [(e["kind"], e["status"]) for e in done] == [
        ("create_table_as", "done"),
        ("query", "done"),
        ("query", "failed"),
        ("query", "done"),
        ("ingest", "done"),
    ]
    for event in done:
        row = rows[event["query_id"]]
        same = set(row) - {"sql", "error", "started_at", "progress"}
        assert {name: event[name] for name in same} == {name: row[name] for name in same}


def test_no_texts_above_debug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in SQL, rows, prompts, answers and errors about them stays out of the log."""
    configure_logging(LogConfig(format="json"))
    with serving(tmp_path, fail_containing="secret") as server, cursor_of(server) as cursor:
        ask(cursor, "SELECT ai_gen('secret {n}?', n) FROM t WHERE n <= 2")
        with pytest.raises(Error, match="secret"):
            ask(cursor, "SELECT CAST('secret' || n AS INT) FROM t")
        with pytest.raises(Error, match="secret"):
            ask(cursor, "SELECT secret FROM t")
    text = capsys.readouterr().err
    assert "query done" in text
    assert "secret" not in text
