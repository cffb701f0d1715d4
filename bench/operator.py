"""Measure the cost of the AI operator itself: 200,000 rows with 100,000 distinct prompts on a model that takes no time.

    python -m bench.operator [--json] [--quick] [--end-to-end] [--profile]

Every run has an in-process session in a process of its own, so that its peak memory can be measured. Rows have texts of
about 300 characters. The query asks the prompt about every row, and the benchmark reads all answers.

With `--end-to-end`, a client reads the answers from `flightllm serve` over ADBC: 3,000,000 rows with 200,000 distinct
prompts and texts of about 200 characters. It prints the seconds, and the server's memory before and at its peak. The
peak is the sum of the peaks of the server's processes that are there after the query.

With `--profile`, it prints the share of the query's time by part of the package, with the answer cache and without.
"""

import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
from adbc_driver_flightsql import dbapi

from bench.common import Options, parse_options, report
from bench.setting import announce
from flightllm.config import CacheConfig, Config, EngineConfig, LogConfig
from flightllm.demo.process import running_server
from flightllm.log import configure_logging
from flightllm.session.database import Database

ROWS: Final = 200_000
QUICK_ROWS: Final = 20_000
TEXT_CHARACTERS: Final = 300
SERVED_ROWS: Final = 3_000_000
QUICK_SERVED_ROWS: Final = 300_000
SERVED_SHARE: Final = 15
"""Rows per distinct prompt of the table that a server answers."""
SERVED_TEXT_CHARACTERS: Final = 200
_SHOWN_FILES: Final = 14
CACHES: Final = ("persistent", "off")
_SQL: Final = "SELECT id, ai_filter('Is the customer satisfied? {review}', review) AS satisfied FROM reviews"
_WORDS: Final = "battery screen price support parcel manual works broke arrived late perfect terrible always never"


def rows(count: int, share: int = 2, characters: int = TEXT_CHARACTERS) -> pa.Table:
    """Return a table of `count` rows in random order: an id, a price, and a text that `share` rows have in common."""
    random = np.random.default_rng(0)
    words = np.array(_WORDS.split())
    distinct = count // share
    picks = random.integers(0, len(words), (distinct, characters // 6))
    texts = [f"{' '.join(words[pick])[: characters - 9]} #{i:07d}" for i, pick in enumerate(picks)]
    which = random.permutation(np.repeat(np.arange(distinct), share))
    return pa.table({"id": np.arange(count), "price": random.random(count), "review": pa.array(texts).take(which)})


def run_once(count: int, cache: str, profiler: cProfile.Profile | None = None) -> dict[str, float]:
    """Run the query in this process; return prompts a second, seconds, and peak memory in MiB.

    `profiler` watches only the query.

    Raises:
        RuntimeError: the number of answers or calls is wrong.
    """
    configure_logging(LogConfig(level="error"))
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        kept = CacheConfig(enabled=cache == "persistent")
        database = Database.open(Config(engine=EngineConfig(kind="fake"), cache=kept, data_folder=Path(folder)))
        try:
            return _measure(database, count, cache, profiler)
        finally:
            database.close()


def _measure(database: Database, count: int, cache: str, profiler: cProfile.Profile | None) -> dict[str, float]:
    session = database.session()
    table = rows(count)
    session.ingest("reviews", table.to_batches(8_192), table.schema, "create")
    del table
    before = _peak_mib()
    if profiler is not None:
        profiler.enable()
    started = time.perf_counter()
    result = session.execute(_SQL, settings={"cache": "off" if cache == "off" else "on"})
    answered = sum(batch.num_rows - batch.column(1).null_count for batch in result.batches)
    seconds = time.perf_counter() - started
    if profiler is not None:
        profiler.disable()
    calls = result.query.row()["calls"]
    if answered != count or calls != count // 2:
        raise RuntimeError(f"{answered} answers by {calls} calls for {count} rows with {count // 2} distinct prompts")
    return {"prompts_per_second": calls / seconds, "seconds": seconds, "peak_mib": _peak_mib(), "before_mib": before}


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def profile(count: int, cache: str) -> dict[str, float]:
    """Run the query under a profiler; return the percentage of the time that each file takes, largest first.

    A built-in function counts for the file that calls it. The profiler slows down calls in Python more than others.
    """
    profiler = cProfile.Profile()
    run_once(count, cache, profiler)
    spent: dict[str, float] = {}
    found: Mapping[Any, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, own, _, callers) in found.items():
        sources = {name: times[2] for (name, _, _), times in callers.items()} if file == "~" else {file: own}
        for name, seconds in sources.items():
            short = name.rpartition("/flightllm/")[2] if "/flightllm/" in name else "the rest"
            spent[short] = spent.get(short, 0.0) + seconds
    total = sum(spent.values())
    largest = sorted(spent.items(), key=lambda item: -item[1])[:_SHOWN_FILES]
    return {f"cache_{cache} {name}": round(100 * seconds / total, 1) for name, seconds in largest}


def end_to_end(count: int) -> dict[str, float]:
    """Upload `count` rows to a server and read its answers over ADBC; return seconds and the server's peak memory.

    Raises:
        RuntimeError: the number of answers is wrong.
    """
    with running_server(["--engine", "fake"], {}) as server:
        table = rows(count, SERVED_SHARE, SERVED_TEXT_CHARACTERS)
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("reviews", table.to_reader(32_768), mode="create")
            del table
            before = _family_mib(server.process.pid, "VmRSS")
            for process in _family(server.process.pid):
                (process / "clear_refs").write_text("5")  # forgets the peak of the upload
            started = time.perf_counter()
            cursor.execute(_SQL)
            answered = sum(batch.num_rows - batch.column(1).null_count for batch in cursor.fetch_record_batch())
            seconds = time.perf_counter() - started
        if answered != count:
            raise RuntimeError(f"{answered} answers for {count} rows")
        peak = _family_mib(server.process.pid, "VmHWM")
    return {"rows": count, "seconds": round(seconds, 2), "before_mib": before, "peak_mib": peak}


def _family(number: int) -> list[Path]:
    """Return the folders in `/proc` of a process and of the processes that it started: a server has several."""
    own = Path(f"/proc/{number}")
    children = [int(child) for task in own.glob("task/*/children") for child in task.read_text("utf-8").split()]
    return [own, *(path for child in children for path in _family(child))]


def _family_mib(number: int, name: str) -> int:
    """Return the sum of a size over a process and the processes that it has started by now, in MiB."""
    return sum(_status_mib(process, name) for process in _family(number))


def _status_mib(process: Path, name: str) -> int:
    """Return a size from the status file of a process, in MiB."""
    lines = dict(line.split(":", 1) for line in (process / "status").read_text("utf-8").splitlines())
    return round(int(lines[name].split()[0]) / 2**10)


def measure(count: int, options: Options) -> dict[str, Any]:
    """Run each cache setting `repeats` times, in turn; return medians of speed and the largest peak memory."""
    runs: dict[str, list[dict[str, float]]] = {cache: [] for cache in CACHES}
    for _ in range(options.repeats):
        for cache in CACHES:
            runs[cache].append(_in_process(count, cache))
    figures: dict[str, Any] = {"rows": count, "distinct_prompts": count // 2, "text_characters": TEXT_CHARACTERS}
    for cache, found in runs.items():
        figures[f"cache_{cache}_prompts_per_second"] = round(median(run["prompts_per_second"] for run in found))
        figures[f"cache_{cache}_seconds"] = round(median(run["seconds"] for run in found), 2)
        figures[f"cache_{cache}_peak_mib"] = round(max(run["peak_mib"] for run in found))
    return figures


def _in_process(count: int, cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.operator", "--once", str(count), cache]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--once"]:
        print(json.dumps(run_once(int(given[1]), given[2])))
        return
    served = "--end-to-end" in given
    given = [argument for argument in given if argument != "--end-to-end"]
    profiled = "--profile" in given
    given = [argument for argument in given if argument != "--profile"]
    options = parse_options("What the AI operator costs on a model that takes no time.", given)
    announce("operator", given)
    if served:
        report("operator", options, end_to_end(QUICK_SERVED_ROWS if options.quick else SERVED_ROWS))
        return
    if profiled:
        count = QUICK_ROWS if options.quick else ROWS
        report("operator", options, {name: share for cache in CACHES for name, share in profile(count, cache).items()})
        return
    report("operator", options, measure(QUICK_ROWS if options.quick else ROWS, options))


if __name__ == "__main__":
    main()
