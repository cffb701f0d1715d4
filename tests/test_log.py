"""Logging goes to standard error, in the form and from the level that the configuration says."""

import json
import logging
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from flightllm.common.redaction import keep_secret
from flightllm.config import LogConfig
from flightllm.log import configure_logging, redact_tracebacks


def test_json_lines_carry_bound_values_and_respect_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    """An event is one JSON object with its bound query_id; what is below the level is not written."""
    configure_logging(LogConfig(level="warning", format="json"))
    with structlog.contextvars.bound_contextvars(query_id="q1"):
        structlog.get_logger().info("hidden")
        structlog.get_logger().warning("slow", seconds=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    event = json.loads(captured.err)
    assert (event["event"], event["seconds"], event["query_id"], event["level"]) == ("slow", 2, "q1", "warning")


def test_console_form_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    """The console form shows the event and its values on one line, without colours when not on a terminal."""
    configure_logging(LogConfig())
    structlog.get_logger().info("ready", port=1)
    line = capsys.readouterr().err
    assert "ready" in line
    assert "port=1" in line


@pytest.mark.parametrize("form", ["console", "json"])
def test_tracebacks_show_no_values(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """A traceback names the lines of code, not the values of variables, which may be a row's text."""
    configure_logging(LogConfig(format=form))
    secret = "a row's " + "text"
    try:
        _ = int(secret[:0] + "x")
    except ValueError:
        structlog.get_logger().exception("failed")
    written = capsys.readouterr().err
    assert "ValueError" in written
    assert secret not in written


def test_other_packages_log_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """A package that logs without structlog shows no secret either."""
    configure_logging(LogConfig())
    keep_secret("canary-in-a-package")
    assert logging.lastResort is not None
    record = logging.LogRecord("otel", logging.ERROR, "", 0, "sent with %s", ("canary-in-a-package",), None)
    logging.lastResort.handle(record)
    assert capsys.readouterr().err == "sent with ***\n"


def test_errors_that_nobody_handles_show_no_secret() -> None:
    """The tracebacks of the main thread, of other threads and of finalizers have no secret."""
    script = """
import threading
from flightllm.common.redaction import keep_secret
from flightllm.log import redact_tracebacks
redact_tracebacks()
keep_secret("canary-" + "trace")
class Bad:
    def __del__(self):
        fail("finalizer")
def fail(where):
    raise ValueError(f"{where}: canary-" + "trace")
Bad()
thread = threading.Thread(target=fail, args=("thread",))
thread.start()
thread.join()
fail("main")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "canary-trace" not in done.stderr
    assert [where for where in ("finalizer", "thread", "main") if f"ValueError: {where}: ***" in done.stderr] == [
        "finalizer", "thread", "main",
    ]  # fmt: skip
    assert "Exception ignored in: <function Bad.__del__" in done.stderr


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        if not self._name:
            raise RuntimeError("half deleted")
        return f"<{self._name}>"


@pytest.mark.parametrize(
    ("message", "place", "begins"),
    [
        (None, _Named("canary-of-an-object"), "Exception ignored in: <***>\n"),
        ("Exception ignored while closing", _Named("pool"), "Exception ignored while closing: <pool>\n"),
        (None, _Named(""), "Exception ignored in: an object of _Named\n"),
        (None, None, "Exception ignored in\n"),
    ],
)
def test_ignored_errors_say_what_and_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], message: str | None, place: object, begins: str
) -> None:
    """An error that Python ignores keeps its message, its object and its kind, and shows no secret."""
    for module, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    redact_tracebacks()
    keep_secret("canary-of-an-object")
    failed = {"err_msg": message, "object": place, "exc_type": MemoryError, "exc_traceback": None}
    tell: Any = sys.unraisablehook  # the type of its argument has no constructor
    tell(SimpleNamespace(**failed, exc_value=None))
    tell(SimpleNamespace(**failed, exc_value=MemoryError("canary-of-an-object")))
    assert capsys.readouterr().err == f"{begins}MemoryError\n{begins}MemoryError: ***\n"
