"""The project and the session of dbt on the page about dbt run, and print what the page shows."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs/how-to/clients/dbt.md"
_PYTHON = os.environ.get("FLIGHTLLM_DBT_PYTHON") or (sys.executable if find_spec("dbt") else None)
_PROJECT = "name: shop\nversion: '1.0'\nprofile: shop\n"
_SEED = "id,body\n1,The tea came late\n2,Lovely mug\n3,Broken on arrival\n"
_MORE = "4,The box was wet\n"
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d  ", re.MULTILINE)
_SECONDS = re.compile(r"in \d+\.\d+s")


@pytest.mark.slow
@pytest.mark.skipif(_PYTHON is None, reason="FLIGHTLLM_DBT_PYTHON names no Python that has dbt-core")
def test_dbt(tmp_path: Path) -> None:
    """Each command prints the lines below it, in their order, among others."""
    (profile,) = blocks(PAGE, "yaml")
    (model,) = blocks(PAGE, "jinja")
    (session,) = blocks(PAGE, "console")
    commands = [part.partition("\n") for part in session.text.split("$ dbt ")[1:]]
    project = tmp_path / "project"
    for folder in ("models", "seeds"):
        (project / folder).mkdir(parents=True)
    (project / "dbt_project.yml").write_text(_PROJECT, encoding="utf-8")
    (project / "models" / "replies.sql").write_text(model.text, encoding="utf-8")
    (project / "seeds" / "reviews.csv").write_text(_SEED, encoding="utf-8")
    engine = EngineConfig("fake", price_output=1.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path / "data"))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    assert "port: 31337" in profile.text
    here = profile.text.replace("port: 31337", f"port: {server.port}")
    (project / "profiles.yml").write_text(here, encoding="utf-8")
    for words, _, shown in commands:
        log = _dbt(project, server.port, words.split())
        found = iter(_plain(log))
        for line in _plain(shown):
            assert line in found, f"{line}\n\nis not the next in\n\n{log}"
        (project / "seeds" / "reviews.csv").write_text(_SEED + _MORE, encoding="utf-8")
    server.drain(0)
    database.close()


def _dbt(project: Path, port: int, arguments: list[str]) -> str:
    """Run a command and return its log."""
    done = subprocess.run(
        [str(_PYTHON), str(ROOT / "tests" / "clients" / "dbt_runner.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "packages" / "dbt_flightllm"), "DO_NOT_TRACK": "1"},
        input=json.dumps({"folder": str(project), "port": port, "arguments": arguments}) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return str(json.loads(done.stdout))


def _plain(text: str) -> list[str]:
    """Return the lines without the time of the day, and with one length of time."""
    return [line for line in _SECONDS.sub("in 0.10s", _CLOCK.sub("", text)).splitlines() if line.strip()]
