"""Prompts and answers in the log at debug level."""

import logging
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from flightllm.config import LogConfig
from flightllm.log import configure_logging
from tests.databases import ask, small_database


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("level", ["debug", "info"])
def test_levels(tmp_path: Path, level: str, optimizer: str) -> None:
    """At debug level there is an event per prompt and one per answer; above it no text of either is logged."""
    configure_logging(LogConfig(level=level))
    database = small_database(tmp_path)
    with capture_logs() as events:
        ask(database.session(), "SELECT ai_gen('x', note) FROM people WHERE id IN (1, 5)", optimizer=optimizer)
    database.close()
    sent = {event["prompt_id"]: event["prompt"] for event in events if event["event"] == "prompt sent"}
    answers = {event["prompt_id"]: event["answer"] for event in events if event["event"] == "answer received"}
    if level == "debug":
        assert sorted(sent.values()) == ["x\n\nnote: likes tea\nAnswer:", "x\n\nnote: owns a cat\nAnswer:"]
        assert sent.keys() == answers.keys()
        assert all(answers.values())
    else:
        assert "tea" not in str(events)


def test_unconfigured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody set logging up, nothing is printed of prompts, although structlog prints every level then."""
    assert structlog.get_logger().bind().is_enabled_for(logging.DEBUG)
    database = small_database(tmp_path)
    ask(database.session(), "SELECT ai_gen('x', note) FROM people")
    database.close()
    printed = capsys.readouterr().out
    assert "query done" in printed
    assert "tea" not in printed
