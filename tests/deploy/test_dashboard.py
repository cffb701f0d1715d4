"""Each panel of the dashboard asks a real Prometheus for something that the server's metrics have."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from flightllm.config import Config, EngineConfig, HttpConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.databases import ask
from tests.servers import await_true

DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/dashboards/flightllm.json"
PROMETHEUS = shutil.which("prometheus") or ""
QUIET = ("flightllm_refusals_total", "flightllm_replica_in_flight")
"""The metrics of panels that have no series before something is refused, or without a cluster."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROMETHEUS, reason="no prometheus here: apt-get install prometheus"),
]


def _expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server with traffic and a Prometheus that scrapes it; return the address of Prometheus's API."""
    folder = tmp_path_factory.mktemp("prometheus")
    replicas = [{"kind": "fake", "cache_blocks": 50}, {"kind": "fake", "cache_blocks": 50}]
    options = {"replicas": replicas, "policy": "round_robin"}
    engine = EngineConfig("cluster", options=options, price_input=1.0, price_output=2.0)
    database = Database.open(Config(engine=engine, data_folder=folder / "data"))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with HttpServer(HttpConfig("127.0.0.1:0"), database, server) as http_server:
        target = (http_server.uri or "").removeprefix("http://")
        jobs = [{"job_name": "flightllm", "static_configs": [{"targets": [target]}]}]
        # Prometheus wants no timeout above the interval, and a busy machine needs a long one
        settings = {"global": {"scrape_interval": "5s", "scrape_timeout": "5s"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        command = [PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        log = folder / "prometheus.log"
        with (
            log.open("wb") as written,
            subprocess.Popen([*command, "--web.listen-address=127.0.0.1:0"], stdout=written, stderr=written) as process,
        ):
            try:
                address = _address(process, log)
                _serve_until_seen(database, address)
                yield address
            finally:
                process.terminate()
    server.drain(0)
    database.close()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address that Prometheus says it listens on, with the port that the system chose."""
    said = re.compile(r'"?Listening on"? address=(127\.0\.0\.1:[0-9]+)\s')

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        return said.search(log.read_text()) is not None

    await_true(listens, seconds=120)
    found = said.search(log.read_text())
    assert found
    return f"http://{found[1]}"


def _serve_until_seen(database: Database, address: str) -> None:
    """Run statements until Prometheus has seen the counters of two of them, which a rate needs."""
    turn = 0

    def seen() -> bool:
        nonlocal turn
        turn += 1
        with closing(database.session()) as session:
            sql = f"SELECT ai_gen('Long enough to be kept {turn // 2} {{a}}', a) AS g FROM (SELECT {turn} AS a) t"
            ask(session, f"{sql} UNION ALL SELECT ai_gen('Again {{a}}', a) FROM (SELECT 1 AS a) u")
        try:
            called = _asked(address, "sum(rate(flightllm_ai_calls_total[1m])) > 0")["result"]
        except (httpx2.HTTPError, json.JSONDecodeError):  # Prometheus listens, but is not ready
            return False
        return bool(called) and turn > 20

    await_true(seen, seconds=240, look=0.1)


def _asked(address: str, expression: str) -> dict[str, Any]:
    answer = httpx2.get(f"{address}/api/v1/query", params={"query": expression}, timeout=30).json()
    assert answer["status"] == "success", (expression, answer)
    data: dict[str, Any] = answer["data"]
    return data


@pytest.mark.parametrize("expression", _expressions())
def test_panel(prometheus: str, expression: str) -> None:
    """The expression is PromQL, and has values where the traffic of the test gives some."""
    text = expression.replace("$__rate_interval", "1m").replace("$__range", "1m")
    found = _asked(prometheus, text)["result"]
    assert found or any(name in expression for name in QUIET)
