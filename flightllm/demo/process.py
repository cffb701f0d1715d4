"""A server in a separate process, for the tour, tests and benchmarks."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO, Any, NoReturn, cast

from flightllm.common.package_data import sample_folder
from flightllm.errors import EngineUnavailableError

_READY = "listening "
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A started server: its address, its process and its log."""

    uri: str
    process: subprocess.Popen[str]
    log: Path


def sample_tables() -> Mapping[str, Path]:
    """Return the packaged sample tables by name."""
    return {path.stem: path for path in sorted(sample_folder().glob("*.parquet"))}


@contextmanager
def running_server(
    arguments: Sequence[str] = (),
    tables: Mapping[str, Path] | None = None,
    ready_seconds: float = 120.0,
    settings: str = "",
) -> Iterator[RunningServer]:
    """Start `flightllm serve` on a free port with a new data folder, and stop it at the end.

    `arguments` are further arguments of `serve`, without `--config` and `--listen`; `tables` default to the samples.
    `settings` are further sections of the configuration file, as TOML.

    Raises:
        EngineUnavailableError: the server stopped or was not ready within `ready_seconds`; quotes its last log lines.
    """
    open_things = ExitStack()
    try:
        with holding_signals():
            folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="flightllm-")))
            config = folder / "server.toml"
            config.write_text(
                f"{_settings(sample_tables() if tables is None else tables)}\n{settings}", encoding="utf-8"
            )
            log = open_things.enter_context((folder / "log").open("w+", encoding="utf-8"))
            command = [sys.executable, "-m", "flightllm", "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
            process = subprocess.Popen(  # noqa: S603 -- the command line is ours
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
            open_things.callback(stop, process)
        yield RunningServer(_await_ready(process, log, ready_seconds), process, folder / "log")
    finally:
        with holding_signals():
            open_things.close()


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Make SIGTERM, SIGHUP and SIGINT end the main thread by an exception, so that open resources are closed.

    Further signals are then ignored, because closing takes a limited time. Under nohup, SIGHUP stays ignored. Call it
    only in the main thread.
    """
    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    before = {number: signal.getsignal(number) for number in numbers}
    if before.get(getattr(signal, "SIGHUP", None)) is signal.SIG_IGN:
        del before[signal.SIGHUP]

    def on_signal(number: int, _frame: FrameType | None) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        if _held.depth:
            _held.number = number
        else:
            _end(number)

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Held:
    """A signal that arrived while a resource was opened or closed, to be handled afterwards.

    The module has one object of this class, because signals go to the whole process.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.number: int | None = None


_held = _Held()


@contextmanager
def holding_signals() -> Iterator[None]:
    """Delay the signals that `ending_on_signals` handles, so that no resource is left half opened or half closed."""
    _held.depth += 1
    try:
        yield
    finally:
        _held.depth -= 1
    if _held.number is not None and not _held.depth:
        number, _held.number = _held.number, None
        _end(number)


def _end(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _settings(tables: Mapping[str, Path]) -> str:
    """Return TOML with the tables and a new data folder, so that no run uses cached answers of another run."""
    lines = ['data_folder = "data"\n[tables]']
    return "\n".join([*lines, *(f"{json.dumps(name)} = {json.dumps(str(path))}" for name, path in tables.items())])


def _await_ready(process: subprocess.Popen[str], log: IO[str], seconds: float) -> str:
    """Return the URI that the server prints; a thread reads it, so that a signal ends the wait at once."""
    found: list[str] = []
    reader = Thread(target=_read_ready, args=(cast("IO[str]", process.stdout), found), daemon=True)
    with holding_signals():
        reader.start()
    deadline = time.monotonic() + seconds
    while reader.is_alive():
        if time.monotonic() > deadline:
            process.kill()
        reader.join(_LOOK_SECONDS)
    if found:
        return found[0]
    process.wait()
    log.seek(0)
    lines = [line.strip() for line in log if line.strip()] or ["it printed nothing"]
    said = lines[-1].removeprefix("error: ") if lines[-1].startswith("error: ") else " | ".join(lines[-5:])
    raise EngineUnavailableError(f"the server did not start (exit code {process.returncode}): {said}")


def _read_ready(output: IO[str], found: list[str]) -> None:
    for line in output:
        if line.startswith(_READY):
            found.append(line.removeprefix(_READY).strip())
            return


def stop(process: "subprocess.Popen[Any]", seconds: float = _STOP_SECONDS) -> None:
    """End a process: terminate it, and kill it if it still runs after `seconds`."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
