"""The image's parts, run outside of a container: entry point, health check, requirements, and what the files name."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as flight_sql
from adbc_driver_manager import dbapi as manager

from flightllm.config import Config
from tests.packages import needs
from tests.servers import await_true

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
pytestmark = needs("prometheus_client", "starlette", "uvicorn", extra="web")


@dataclass(frozen=True)
class Container:
    """A server that the entry point started: its process, volume, addresses, and everything it printed."""

    process: subprocess.Popen[str]
    volume: Path
    flight: str
    http: str

    def stop(self) -> None:
        """Let the server end, as a runtime does."""
        self.process.terminate()
        self.process.communicate()


def start(volume: Path, config: Path, python: Path = Path(sys.executable)) -> Container:
    """Start the entry point as an image does, on this machine's loopback addresses."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FLIGHTLLM_")}
    environment |= {"FLIGHTLLM_HOME": str(volume), "FLIGHTLLM_CONFIG": str(config)}
    environment["PATH"] = f"{python.parent}:{environment['PATH']}"
    process = subprocess.Popen(
        ["/bin/sh", str(DEPLOY / "entrypoint.sh")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed, flight, http = [], "", ""
    for line in process.stdout or ():
        printed.append(line)
        if line.startswith("{") and "uri" in (event := json.loads(line)):
            http = str(event["uri"]).partition("://")[2]
        if line.startswith("listening "):
            flight = line.split()[1]
            break
    assert flight, "".join(printed)
    return Container(process, volume, flight, http)


def on_loopback(folder: Path) -> Path:
    """Write the container's configuration with free ports of this machine."""
    text = (ROOT / "config" / "container.toml").read_text("utf-8")
    file = folder / "container.toml"
    file.write_text(text.replace("0.0.0.0:31337", "127.0.0.1:0").replace("0.0.0.0:9090", "127.0.0.1:0"))
    return file


def without_model(config: Path) -> Path:
    """Let the engine make answers up: a real model takes seconds to load."""
    config.write_text(config.read_text("utf-8") + '\n[engine]\nkind = "fake"\n')
    return config


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """Start a server on an empty volume."""
    volume = tmp_path_factory.mktemp("volume")
    started = start(volume, without_model(on_loopback(tmp_path_factory.mktemp("etc"))))
    try:
        yield started
    finally:
        started.stop()


def ask(container: Container, token: str) -> list[tuple[Any, ...]]:
    """Run one statement as a client with a token does."""
    header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    with (
        flight_sql.connect(container.flight, db_kwargs=header, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        return list(cursor.fetchall())


def healthy(http: str, **environment: str) -> bool:
    """Run the health check as the image does."""
    command = [sys.executable, str(DEPLOY / "healthcheck.py")]
    found = {**os.environ, "FLIGHTLLM_HTTP": http, **environment}
    return subprocess.run(command, env=found, capture_output=True, check=False).returncode == 0


def test_an_empty_volume(container: Container) -> None:
    """The first start makes a token that only its user can read; a client that sends it gets rows, another an error."""
    kept = container.volume / "container-token"
    assert kept.stat().st_mode & 0o077 == 0
    assert ask(container, kept.read_text().strip()) == [(1,)]
    with pytest.raises(manager.Error, match="token"):
        ask(container, "guessed")


def test_health(container: Container) -> None:
    """The health check asks the server; without HTTP it takes a connection to the Flight port."""
    port = container.flight.rpartition(":")[2]
    await_true(lambda: healthy(container.http))
    assert healthy("", FLIGHTLLM_PORT=port)
    assert not healthy("127.0.0.1:1")
    assert not healthy("", FLIGHTLLM_PORT="1")


@pytest.mark.slow
def test_health_of_an_encrypted_page(tmp_path: Path) -> None:
    """A server with a page and a certificate is healthy, though the certificate names another host."""
    trustme.CA().issue_cert("db.example.com").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    config = on_loopback(tmp_path)
    named = f'[server]\ntls_certificate = "{tmp_path}/both.pem"\ntls_key = "{tmp_path}/both.pem"\n'
    config.write_text(config.read_text().replace("[server]\n", named).replace("[http]\n", "[http]\npage = true\n"))
    started = start(tmp_path, config)
    try:
        await_true(lambda: healthy(started.http))
        with pytest.raises(OSError, match=r"closed|reset|end"):
            urllib.request.urlopen(f"http://{started.http}/readyz", timeout=30)
    finally:
        started.stop()


def test_the_dashboard_shows_what_the_server_tells(container: Container) -> None:
    """Each metric that a panel names is one of the server's."""
    with urllib.request.urlopen(f"http://{container.http}/metrics", timeout=30) as answer:
        known = set(re.findall(r"^# HELP (\w+)", answer.read().decode(), re.MULTILINE))
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "flightllm.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    named = set(re.findall(r"\b(?:flightllm|process)_\w+", " ".join(queries)))
    assert len(named) > 15
    assert {name.removesuffix("_bucket") for name in named} - known == set()


@pytest.mark.slow
def test_a_second_start_keeps_the_token(tmp_path: Path) -> None:
    """Clients need no new token once the container is replaced."""
    tokens = []
    for _ in range(2):
        started = start(tmp_path, on_loopback(tmp_path))
        try:
            tokens.append((tmp_path / "container-token").read_text().strip())
            assert ask(started, tokens[-1]) == [(1,)]
        finally:
            started.stop()
    assert tokens[0] == tokens[1]


def test_arguments_run_the_command() -> None:
    """`docker run IMAGE --version` is `flightllm --version`."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["/bin/sh", str(DEPLOY / "entrypoint.sh"), "--version"]
    assert "flightllm" in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_requirements() -> None:
    """The image installs what the project and the chosen extras ask for; an unknown extra is named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    command = [sys.executable, str(DEPLOY / "requirements.py"), "web, jwt"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    extras = project["optional-dependencies"]
    assert set(printed) == {*project["dependencies"], *extras["web"], *extras["jwt"]}
    command[-1] = "wbe"
    failed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "no extra 'wbe': choose from" in failed.stderr


def test_mounted_files_exist() -> None:
    """Each file that `compose.yaml` mounts is in the repository, and the server's is a configuration."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())]
    files = [ROOT / mount for mount in mounts if mount.startswith("./")]
    assert len(files) >= 4
    assert [file for file in files if not file.exists()] == []
    Config.load(DEPLOY / "ollama" / "flightllm.toml")


def test_what_the_image_copies_is_sent() -> None:
    """`.dockerignore` lets through each file that the Dockerfile and the package's build need."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    sent = [line[1:] for line in lines if line.startswith("!")]
    copied = re.findall(r"^COPY (?:--chmod=\S+ )?((?:deploy|pyproject)\S.*) \S+$", dockerfile(), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert any(fnmatch(name, one) for one in sent), name
    assert {"flightllm", "udfs", "config", "README.md", "LICENSE"} <= set(sent)


def dockerfile() -> str:
    """Return the Dockerfile."""
    return (ROOT / "Dockerfile").read_text("utf-8")


@pytest.mark.skipif(shutil.which("hadolint", path=str(Path(sys.executable).parent)) is None, reason="no hadolint here")
def test_lint() -> None:
    """The Dockerfile's linter finds nothing."""
    command = [str(Path(sys.executable).parent / "hadolint"), str(ROOT / "Dockerfile")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("", 0)


@pytest.mark.slow
def test_the_steps_of_the_build(tmp_path: Path) -> None:
    """The Dockerfile's own commands make an environment in which the entry point starts a server."""
    source, target = tmp_path / "src", tmp_path / "flightllm"
    source.mkdir()
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if line.startswith("!"):
            place = source / line[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / line[1:]).is_dir() else shutil.copy
            copy(ROOT / line[1:], place)
    shutil.copy(DEPLOY / "requirements.py", source)  # as its COPY line does
    stage = dockerfile().partition(" AS build\n")[2].partition("\nFROM ")[0].replace("\\\n", " ")
    steps = re.findall(r"^RUN (?:--mount=\S+ )?(.+)$", stage, re.MULTILINE)
    assert len(steps) == 4
    environment = {**os.environ, "EXTRAS": "web", "PIP_OPTIONS": "-q"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for step in steps:
        command = step.replace("/opt/flightllm", str(target))
        subprocess.run(["/bin/sh", "-euc", command], cwd=source, env=environment, check=True)
    python = target / "bin" / "python"
    (tmp_path / "data").mkdir()
    config = without_model(on_loopback(tmp_path))  # the extra `local` is gigabytes
    with pytest.MonkeyPatch.context() as context:
        context.delenv("PYTHONPATH", raising=False)
        started = start(tmp_path / "data", config, python)
    try:
        assert ask(started, (tmp_path / "data" / "container-token").read_text().strip()) == [(1,)]
    finally:
        started.stop()
