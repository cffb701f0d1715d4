"""Prometheus of the deployments reaches the metrics under the names by which it asks."""

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
import yaml
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from flightllm.config import Config
from flightllm.web.hosts import AllowedHosts

DEPLOY = Path(__file__).parents[2] / "deploy"
_NAMES = {'include "flightllm.name" .': "my-llm", ".Release.Namespace": "data"}


def _chart_config() -> str:
    """Return the configuration of the chart, with its values filled in as Helm does."""
    values = yaml.safe_load((DEPLOY / "helm/flightllm/values.yaml").read_text())
    return re.sub(r"\{\{ (.*?) \}\}", lambda found: _NAMES[found[1]], values["config"])


def _statuses(config: Config, names: list[str]) -> list[int]:
    """Return how the server's check of names answers a request under each name."""
    app = Starlette(routes=[Route("/metrics", lambda _: PlainTextResponse("metrics"))])
    checked = AllowedHosts(app, config.http.address[0] if config.http.address else "", config.http.hosts)

    async def ask() -> list[int]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=checked)) as client:
            return [(await client.get(f"http://{name}:9090/metrics")).status_code for name in names]

    return asyncio.run(ask())


def test_the_chart(tmp_path: Path) -> None:
    """The pod's address and each name of the service are allowed; another site's name is not."""
    (tmp_path / "flightllm.toml").write_text(_chart_config())
    config = Config.load(tmp_path / "flightllm.toml")
    assert config.server.address == ("0.0.0.0", 31337)  # noqa: S104 - what a container listens on
    names = ["10.1.2.3", "my-llm", "my-llm.data", "my-llm.data.svc", "my-llm.data.svc.cluster.local", "evil.example"]
    assert _statuses(config, names) == [200, 200, 200, 200, 200, 403]
    for template in ("configmap.yaml", "statefulset.yaml"):  # else Kubernetes gets the template itself
        assert "tpl .Values.config ." in (DEPLOY / "helm/flightllm/templates" / template).read_text()


@pytest.mark.parametrize("file", [DEPLOY / "ollama/flightllm.toml", DEPLOY.parent / "config/container.toml"])
def test_compose(file: Path) -> None:
    """Prometheus of compose.yaml asks by a name that each configuration of the container has."""
    scrapes = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    names = [target.partition(":")[0] for job in scrapes for one in job["static_configs"] for target in one["targets"]]
    assert names == ["flightllm"]
    assert _statuses(Config.load(file), [*names, "evil.example"]) == [200, 403]
