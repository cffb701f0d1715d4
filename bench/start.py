"""Measure what a command costs before and around its work: CPU and wall seconds, beside DuckDB.

    python -m bench.start [--quick] [--json] [--repeats N]

| step | FlightLLM | DuckDB |
|---|---|---|
| `version` | `flightllm --version` | prints its version |
| `small` | `flightllm query --open`, a CSV of three rows | reads the CSV, prints the table |
| `running` | `flightllm query`, a server that runs | `SELECT 1` in its process: DuckDB has no server |
| `large` | `flightllm query --open`, a sum over a CSV of 66 MB | the same sum |

Each run is a new process. The two systems take turns. A process's CPU seconds are those of all its threads and of the
processes that it waited for; other work on the machine hardly changes them. DuckDB is its Python package, so its steps
include the start of Python. If the package is not installed, only FlightLLM is measured. `--quick` generates 3 MB.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.common import parse_options, report
from flightllm.demo.process import running_server

_LINE: Final = "{0},customer {1},2024-{2:02}-{3:02},{4}.{3:02},{5},The delivery of order {0} came {1} days late\n"
_BYTES, _QUICK_BYTES = 66_000_000, 3_000_000
_DUCKDB: Final = {
    "version": "duckdb.__version__",
    "small": "duckdb.sql('SELECT * FROM \"{small}\"')",
    "running": "duckdb.sql('SELECT 1 AS one')",
    "large": "duckdb.sql('SELECT sum(amount), count(DISTINCT city) FROM \"{large}\"')",
}


@dataclass(slots=True)
class Taken:
    """The seconds of several runs of a command."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end, and add its seconds.

        Raises:
            CalledProcessError: the command failed.
        """
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, text=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall.append(time.perf_counter() - started)
        self.cpu.append(used.ru_utime + used.ru_stime)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)

    def medians(self) -> Mapping[str, float]:
        """Return the median CPU and wall seconds."""
        return {"cpu_seconds": statistics.median(self.cpu), "wall_seconds": statistics.median(self.wall)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    options = parse_options((__doc__ or "").partition("\n")[0], arguments)
    repeats = min(options.repeats, 2) if options.quick else options.repeats
    if importlib.util.find_spec("duckdb") is None:
        print("DuckDB is not measured: its package is not installed (pip install duckdb)")
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        report("start", options, measure(Path(folder), _QUICK_BYTES if options.quick else _BYTES, repeats))


def measure(folder: Path, size: int, repeats: int) -> dict[str, Any]:
    """Return the median seconds of each step by system; `size` is the bytes of the large CSV."""
    small, large = folder / "small.csv", folder / "large.csv"
    small.write_text("id,body\n1,late\n2,broken\n3,thanks\n", encoding="utf-8")
    generate(large, size)
    os.environ["FLIGHTLLM_HOME"] = str(folder / "home")
    with running_server(["--engine", "fake"]) as server:
        commands = _commands(small, large, server.uri)
        taken = {(step, system): Taken() for step, systems in commands.items() for system in systems}
        for _ in range(repeats):
            for step, systems in commands.items():
                for system, command in systems.items():
                    taken[step, system].run(command)
    medians = {
        f"{step}_{system}_{name}": value
        for (step, system), found in taken.items()
        for name, value in found.medians().items()
    }
    return {"bytes": large.stat().st_size, **medians}


def generate(path: Path, size: int) -> None:
    """Write a CSV of at least `size` bytes, with whole numbers, decimals, dates, short and long texts."""
    with path.open("w", encoding="utf-8") as file:
        file.write("id,customer,day,amount,city,note\n")
        written = number = 0
        while written < size:
            number += 1
            city = f"city {number * number % 997}"
            written += file.write(
                _LINE.format(number, number % 9_973, number % 12 + 1, number % 28 + 1, number % 500, city)
            )


def _commands(small: Path, large: Path, uri: str) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the command of each system for each step."""
    flightllm = [sys.executable, "-m", "flightllm"]
    ours = {
        "version": [*flightllm, "--version"],
        "small": [*flightllm, "query", "--open", str(small), "SELECT * FROM small"],
        "running": [*flightllm, "query", "--uri", uri, "SELECT 1 AS one"],
        "large": [
            *(*flightllm, "query", "--open", str(large)),
            "SELECT sum(amount), count(DISTINCT city) FROM large",
        ],
    }
    found = {step: {"flightllm": command} for step, command in ours.items()}
    if importlib.util.find_spec("duckdb") is not None:
        for step, text in _DUCKDB.items():
            code = f"import duckdb; print({text.format(small=small, large=large)})"
            found[step]["duckdb"] = [sys.executable, "-c", code]
    return found


if __name__ == "__main__":
    main()
