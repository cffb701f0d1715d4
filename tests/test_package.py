"""The package's public face."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import flightllm

ROOT = Path(__file__).parents[1]


def test_public_names_are_the_intended_ones() -> None:
    """Adding or removing a public name is a decision, so the list is spelled out here."""
    assert flightllm.__all__ == [
        "AsyncConnection",
        "AsyncResult",
        "BudgetExceededError",
        "CancelledError",
        "Config",
        "ConfigError",
        "Connection",
        "Cost",
        "FlightLLMError",
        "InvalidInputError",
        "LimitExceededError",
        "NotFoundError",
        "PermissionDeniedError",
        "Result",
        "SqlError",
        "UnknownTableError",
        "__version__",
        "connect",
        "connect_async",
    ]
    assert all(getattr(flightllm, name) is not None for name in flightllm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = flightllm.nothing


def test_the_import_is_light() -> None:
    """`import flightllm` loads no other module of the package and no dependency; names are loaded at first use."""
    code = "import sys; before = set(sys.modules); import flightllm; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert found == {"flightllm"}


def test_version_is_the_installed_one() -> None:
    """The version in the code and in the package metadata agree."""
    assert flightllm.__version__ == version("flightllm")


def test_every_place_has_the_version() -> None:
    """Package metadata, Helm chart and deployment guide have the code's version, and the changelog describes it."""
    for project in ("pyproject.toml", "packages/flightllm_kv/pyproject.toml"):
        assert tomllib.loads((ROOT / project).read_text())["project"]["version"] == flightllm.__version__
    chart = (ROOT / "deploy/helm/flightllm/Chart.yaml").read_text()
    assert re.findall(r"ersion: (\d\S+)", chart) == [flightllm.__version__] * 2
    images = (ROOT / "docs/how-to/deploy.md").read_text() + (ROOT / "deploy/helm/flightllm/values.yaml").read_text()
    assert set(re.findall(r"/flightllm:(\d[\w.]*\d)", images)) == {flightllm.__version__}
    assert f"## {flightllm.__version__} - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
