"""Record the figures that benchmarks print, for the pages of `docs/benchmarks`.

    python -m bench.record [NAME …] [--into FOLDER]

Runs the command of each name (default: all) one after the other, and writes `bench/results/NAME.json`. The file has the
command, the day, and whether the tables came from `FLIGHTLLM_DATA`. Its `load` is the number of busy cores in the
second before the run. Its `others` is the mean number of cores that other work kept busy during the run. It is
null without psutil, and older files lack it. The file also has the object that the script printed. A file stays as it
is if its script fails, or if the script ends before its last step. `python -m docs.figures` then writes the pages, and
tables of `bench/README.md`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"
RECORDS: Final[Mapping[str, str]] = {
    "sql_rules": "llm_queries --engine fake --queries two,latest",
    "prompt_order": "llm_queries --suite paper --model demo --rows 8 --topic movies --topic questions",
    "ablations_counts": "ablations --engine fake --rows 400",
    "ablations": "ablations --engine vllm --model smollm2 --rows 32 --cache-blocks 64 --in-flight 4"
    " --orders 1 --shares 0.25,1 --times 1,4",
    "prompt_formats": "prompts --model qwen15 --out bench/prompts.json --best-rows 60 --tasks films products"
    " --functions filter statement classify score",
    "examples": "examples --model qwen05 qwen15 --widest 200 --out bench/examples.json",
    "eviction": "eviction_sim --workload '2 queries' --rows 1000 --seed 2",
    "eviction_traces": "eviction_sim --workload mooncake azure_conv azure_code phases documents agents scans --seed 3"
    " --policy lru 2q gdsf arc s3_fifo workload_aware",
    "finite_cache": "finite_cache --bound",
    "kv_quality": "kv_quality --quick",
    "kv_codec": "kv_codec",
    "kv_adaptation": "kv_adaptation",
    "routing": "router_sim --workload tools docs burst batches mixed --replicas 2 8 64 --load 0.9 1.4 1.4"
    " --peers --policy --learned --first-seed 7000 --seeds 3 --prompts 30",
    "vector": "vector --vectors 100000 --types flat,ivf,hnsw",
    "hostile": "hostile --seconds 1",
    "recovery": "recovery",
    "cascades": "cascades --seeds 20",
    "promises": "promises --seeds 20",
    "endpoints": "endpoints",
    "bill": "bill",
    "sembench": "sembench",
    "streaming": "streaming --quick",
    "planning": "planning",
    "operator": "operator --repeats 3",
    "frontend": "frontend --model smollm2 --quick",
    "ordering": "ordering --generate 1000000",
    "rag": "rag --quick",
    "messy": "messy",
    "start": "start",
}
"""The script and its arguments, by the name of the file."""
READ_TABLES: Final = frozenset((
    *("sql_rules", "prompt_order", "ablations", "ablations_counts", "prompt_formats", "eviction", "eviction_traces"),
    *("kv_quality", "frontend", "rag", "planning", "cascades", "promises", "bill", "finite_cache", "sembench"),
))  # fmt: skip
"""Those that read tables; the others make what they measure."""


def command(name: str) -> list[str]:
    """Return the command whose output is recorded, as a user types it."""
    script, *arguments = shlex.split(RECORDS[name])
    return ["python", "-m", f"bench.{script}", *arguments, "--json"]


def busy_cores() -> float:
    """Return how many cores are busy during one second. Without psutil, return the load average of one minute."""
    try:
        import psutil
    except ImportError:
        return os.getloadavg()[0]
    return float(psutil.cpu_percent(interval=1.0)) * (psutil.cpu_count() or 1) / 100


def seconds_of_others() -> float | None:
    """Return the CPU seconds of the machine since its start, except those of this process and its ended children.

    A child that nobody waits for counts as other work. Time that a hypervisor gave to other machines does not count.
    Without psutil, return None.
    """
    try:
        import psutil
    except ImportError:
        return None
    of_machine = psutil.cpu_times()._asdict()
    not_busy = ("idle", "iowait", "steal", "guest", "guest_nice")  # the time of guests is also in `user` and `nice`
    mine = os.times()
    return float(
        sum(seconds for kind, seconds in of_machine.items() if kind not in not_busy)
        - (mine.user + mine.system + mine.children_user + mine.children_system)
    )


def record(name: str) -> dict[str, Any]:
    """Run a benchmark; return the record for `bench/results`. The error output shows the script's lines at once.

    Raises:
        RuntimeError: the script printed no object, or only the figures before a step that failed. The message quotes
            the end of its output, or the failure.
    """
    load = busy_cores()
    started, before = time.monotonic(), seconds_of_others()
    lines, said = _printed(command(name))
    wall, after = time.monotonic() - started, seconds_of_others()
    # exit code 1 is not an error: some scripts return it for a missed target
    if not lines or not lines[-1].startswith("{"):
        printed = "\n".join(lines)
        raise RuntimeError(f"{name}: {(said or printed).strip()[-500:] or 'no output'}")
    figures = json.loads(lines[-1])
    if failed := figures.get("failed"):
        raise RuntimeError(f"{name}: the run did not get to its end: {'; '.join(failed.values())}")
    return {
        "command": shlex.join(command(name)),
        "date": datetime.now(UTC).date().isoformat(),
        "load": round(load, 1),
        "others": None if before is None or after is None else round(max(0.0, after - before) / wall, 1),
        "own_tables": name in READ_TABLES and "FLIGHTLLM_DATA" in os.environ,
        "figures": figures,
    }


def _printed(script: Sequence[str]) -> tuple[list[str], str]:
    """Run a command in this Python; return the lines of its output, and its error output."""
    lines: list[str] = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen([sys.executable, *script[1:]], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        for line in process.stdout or ():
            print(line, end="", file=sys.stderr, flush=True)
            lines.append(line.rstrip("\n"))
        process.wait()
        errors.seek(0)
        return lines, errors.read()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDS)} (default: all)")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="write the files here instead of bench/results")
    given = parser.parse_args(arguments)
    names, folder = given.names or list(RECORDS), given.into or RESULTS
    if unknown := set(names) - RECORDS.keys():
        parser.error(f"there is no record {', '.join(sorted(unknown))}; choose from {', '.join(RECORDS)}")
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names, 1):
        print(f"{number} of {len(names)}: {name}", file=sys.stderr, flush=True)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(record(name), indent=1) + "\n", encoding="utf-8")
        print(path, flush=True)


if __name__ == "__main__":
    main()
