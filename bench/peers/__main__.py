"""Ask a model about every row of the same table with FlightLLM, LOTUS and Daft, on the same vLLM server.

    python -m bench.peers [--rows 2000] [--model demo] [--systems lotus,daft] [--json]

A filter and a projection run over reviews joined with movies. Rows are in random order, and duplicates of the tables
stay. Every run begins with an empty prefix cache. The server counts answered prompts and tokens. Seconds cover only the
query or data frame operation, each in a process that has already imported everything. A peer that cannot be installed
is left out.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.common import machine
from bench.engines import IN_FLIGHT
from bench.models import SHAPES, model
from bench.peers.install import REQUIREMENTS, peer_python
from bench.peers.server import MODEL, counters, forget_prefixes, vllm_server
from bench.samples import Pair, sample
from bench.setting import announce, open_database
from flightllm.config import EngineConfig

FIELDS: Final = ("movie_info", "review_type", "review_content")
TASKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "filter": {"prompt": "Is this film suitable for children?", "filter": True, "max_tokens": 8},
    "projection": {"prompt": "Sum up what the critic liked or disliked.", "filter": False, "max_tokens": 8},
}
_CACHE_TOKENS: Final = 20_480
"""Twice the tokens of the prompts in flight. The texts that rows share have about 37,000 tokens."""
_OURS: Final[Mapping[str, Mapping[str, object]]] = {
    "FlightLLM, chat": {"api": "chat"},
    "FlightLLM, lists of prompts": {"api": "completions", "prompts_per_request": 16},
}
Figures = dict[str, Any]
System = Callable[[Mapping[str, Any]], Figures]


def joined(rows: int) -> pa.Table:
    """Return the join of a sample of movies and reviews, in the order of the reviews."""
    pair = Pair("movies", "movie_reviews", "movie_info", "review_content")
    tables = sample(pair, rows)
    reviews = tables["movie_reviews"].select([pair.key, "review_type", "review_content"])
    reviews = reviews.append_column("place", pa.array(range(len(reviews))))
    return reviews.join(tables["movies"].select([pair.key, "movie_info"]), pair.key).sort_by("place").select(FIELDS)


def write_lines(table: pa.Table, path: Path) -> None:
    """Write a table as JSON lines, which every system can read without further packages."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")


def ours(options: Mapping[str, object]) -> System:
    """Return FlightLLM in this process, with these options of its engine."""

    def run(task: Mapping[str, Any]) -> Figures:
        engine = EngineConfig("openai", task["model"], options={**options, "base_url": f"{task['url']}/v1"})
        with open_database(engine, {"reviews": Path(task["rows"])}) as database:
            fields = ", ".join(task["fields"])
            bound = f"max_tokens => {task['max_tokens']}, on_truncated => 'keep'"
            sql = f"SELECT ai_gen('{task['prompt']}', {fields}, {bound}) FROM reviews"
            if task["filter"]:
                sql = f"SELECT * FROM reviews WHERE ai_filter('{task['prompt']}', {fields})"
            result = database.session().execute(sql)
            count = sum(batch.num_rows for batch in result.batches)
            return {"seconds": result.query.row()["seconds"], "rows": count}

    return run


def peer(name: str) -> System:
    """Return a peer, which runs in a process of its own environment.

    Raises:
        RuntimeError: the peer cannot be installed on this machine.
    """
    python = peer_python(name)
    script = Path(__file__).with_name(f"{name}_run.py")

    def run(task: Mapping[str, Any]) -> Figures:
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # otherwise LOTUS downloads prices
        command = [str(python), str(script), json.dumps(task)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr[-2_000:]}")
        figures: Figures = json.loads(done.stdout.splitlines()[-1])
        return figures

    return run


def systems(peers: Sequence[str]) -> dict[str, System]:
    """Return FlightLLM and the peers that can be installed."""
    found = {name: ours(options) for name, options in _OURS.items()}
    for name in peers:
        try:
            found[REQUIREMENTS[name]] = peer(name)
        except RuntimeError as error:
            print(f"left out: {error}")
    return found


def measured(url: str, system: System, task: Mapping[str, Any]) -> Figures:
    """Run a task with an empty prefix cache; return its figures and those of the server."""
    forget_prefixes(url)
    before = counters(url)
    own = system(task)
    counted = {name: value - before[name] for name, value in counters(url).items()}
    computed = counted["prompt_tokens"] - counted["cached_tokens"]
    return {**counted, "computed_tokens": computed, "rows": own["rows"], "seconds": round(own["seconds"], 2)}


def measure(given: argparse.Namespace) -> Iterator[tuple[str, str, Figures]]:
    """Start the server; yield task, system and figures. A few rows warm every system up first."""
    found = systems([] if given.systems in ("", "none") else given.systems.split(","))
    shape = SHAPES[given.model]
    with (
        tempfile.TemporaryDirectory(prefix="flightllm-bench-") as temporary,
        vllm_server(model(shape), shape.kv_bytes(_CACHE_TOKENS), IN_FLIGHT) as url,
    ):
        table = joined(given.rows)
        paths = {name: Path(temporary) / f"{name}.jsonl" for name in ("rows", "few")}
        write_lines(table, paths["rows"])
        write_lines(table.slice(0, 8), paths["few"])
        for name, task in TASKS.items():
            whole = {**task, "url": url, "model": MODEL, "fields": FIELDS, "rows": str(paths["rows"])}
            for system, run in found.items():
                run({**whole, "rows": str(paths["few"])})
                yield name, system, measured(url, run, whole)


def table(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the figures as a Markdown table."""
    names = ("calls", "prompt_tokens", "cached_tokens", "computed_tokens", "completion_tokens")
    lines = [["task", "system", *(name.replace("_", " ") for name in names), "seconds"]]
    lines.append(["---"] * len(lines[0]))
    for task, by_system in found.items():
        for system, figures in by_system.items():
            lines.append([task, system, *(f"{figures[name]:,}" for name in names), f"{figures['seconds']:.1f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="FlightLLM beside LOTUS and Daft.")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--model", choices=tuple(SHAPES), default="demo", help="the model's size; demo is the smallest")
    parser.add_argument(
        "--systems",
        default=",".join(REQUIREMENTS),
        help="peers to compare with FlightLLM, separated by commas; none for no peers",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    announce("peers", arguments)
    found: dict[str, dict[str, Figures]] = {}
    for task, system, figures in measure(given):
        print(f"{task}, {system}: {json.dumps(figures)}", flush=True)
        found.setdefault(task, {})[system] = figures
    print(f"\n{table(found)}\n")
    if given.json:
        print(json.dumps({"bench": "peers", "rows": given.rows, "tasks": found, "machine": machine()}))


if __name__ == "__main__":
    main()
