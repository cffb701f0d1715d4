"""Fixtures of several folders, and hooks of all tests."""

import gc
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Final

import pytest
import structlog
from hypothesis import HealthCheck, settings

from flightllm.catalog import Catalog
from flightllm.common import redaction
from flightllm.common.package_data import demo_model
from flightllm.config import LimitsConfig
from flightllm.llm.engine import Parameters, Request
from flightllm.observe.query_log import QueryLog
from tests.__main__ import ENGINE_MARK

# DataFusion starts its threads once per process, at its first use, which may come before a database chooses how many.
os.environ.setdefault("TOKIO_WORKER_THREADS", "64")
# A busy machine can take any time for one example, so hypothesis must not fail a test because of seconds.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in each run: a change is judged by them. `python tests --all` looks for new ones.
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same")
_SLOW_SECONDS: Final = 3.0
"""Tests that take longer in a run are listed at its end: a test of one second takes up to this long beside others."""
_SLOW_TIMEOUT: Final = 900
"""Seconds after which a slow test counts as one that hangs."""
MakeRequests = Callable[..., list[Request]]


@pytest.fixture(autouse=True)
def _structlog_as_found() -> Iterator[None]:
    """Leave logging as the other tests expect it: commands and benchmarks set it up for their whole process."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _secrets_as_found() -> Iterator[None]:
    """Forget the secrets of a test, which other tests can have as plain words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_SECRETS", copy(redaction._SECRETS))
        yield


@pytest.fixture(scope="session")
def model_path() -> Path:
    """Return the demo model's folder."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    return demo_model()


@pytest.fixture(scope="session")
def make_requests() -> MakeRequests:
    """Return a maker of requests whose prompts share a long start."""
    shared = "Is this review positive? Judge what it says about the film, not about the cinema. " * 4

    def make(count: int, parameters: Parameters | None = None, start: int = 0) -> list[Request]:
        chosen = parameters or Parameters(max_tokens=4)
        return [
            Request(
                number, f"{shared}\n\nreview: film number {number}\n", chosen, "ai_gen", shared, (("n", str(number)),)
            )
            for number in range(start, start + count)
        ]

    return make


@pytest.fixture
def catalog() -> Catalog:
    """Return a catalog with system tables and nothing else."""
    return Catalog(LimitsConfig(), QueryLog())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests time on a busy machine, and see that `python tests` finds those that start engines."""
    read = {
        item.path: item.path.read_text(encoding="utf-8")
        for item in items
        if item.get_closest_marker("vllm") or item.get_closest_marker("ray")
    }
    if unnamed := [path for path, text in read.items() if not ENGINE_MARK.search(text)]:
        raise pytest.UsageError(f"write mark.vllm or mark.ray in {', '.join(map(str, unnamed))}: they have the mark")
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SLOW_TIMEOUT))


def pytest_collection() -> None:
    """Let no garbage be collected while modules and tests are made: all of them stay to the end of the run."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep modules and tests from the garbage collector: each collection during the run would visit all of them."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell at the end of a run which tests failed, and which took long."""
    if hasattr(terminalreporter.config, "workerinput"):  # a worker of pytest-xdist: its reports reach the main process
        return
    _pass_on_failed(terminalreporter)
    _print_long(terminalreporter)


def _pass_on_failed(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the names of failed tests to the file that `python tests` names."""
    path = os.environ.get("FLIGHTLLM_FAILED_TESTS")
    if not path:
        return
    failed = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
    with Path(path).open("a", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in dict.fromkeys(failed))


def _print_long(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tests that took long without the mark `slow`: a busy machine is no failure."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and "slow" not in report.keywords:
                seconds[report.nodeid] += report.duration
    long = sorted(((took, name) for name, took in seconds.items() if took > _SLOW_SECONDS), reverse=True)
    if long:
        terminalreporter.section(f"over {_SLOW_SECONDS:g} s at this machine's load, and not marked slow")
        for took, name in long:
            terminalreporter.write_line(f"{took:7.1f} s  {name}")
