"""The page about agents: its transcript is the answer of a real tool, and the commands of its configurations exist."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from flightllm.cli import main
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import SAMPLES
from tests.docs.pages import DOCS, blocks
from tests.mcp.support import agent

PAGE = DOCS / "how-to/clients/agents.md"


def test_transcript(tmp_path: Path) -> None:
    """The answer on the page is that of the call before it, apart from its seconds."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    [call] = re.findall(r"arguments `(\{.*?\})` gives", text)
    [shown] = blocks(PAGE, "text")
    database = Database.open(Config(engine=EngineConfig("fake"), tables=SAMPLES, data_folder=tmp_path))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    try:
        told = agent(server.uri, "").call("query", **json.loads(call))
    finally:
        server.drain(0)
        database.close()
    assert re.sub(r"[\d.]+ s$", "… s", told.text) == re.sub(r"[\d.]+ s$", "… s", shown.text.strip())


@pytest.mark.parametrize("block", blocks(PAGE, "json"), ids=str)
def test_configurations(block: object) -> None:
    """Each configuration is JSON, and its command takes its arguments."""
    text = getattr(block, "text", "")
    document = json.loads(text)
    [[entry]] = [list(servers.values()) for servers in document.values()]
    if "command" not in entry:
        assert entry["type"] == "http"
        return
    assert entry["command"] == "flightllm"
    name, *arguments = entry["args"]
    context = main.make_context("flightllm", ["--help"], resilient_parsing=True)
    command = main.get_command(context, name)
    assert command is not None
    command.make_context(name, arguments, parent=context)
