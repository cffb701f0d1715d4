"""Run a filter over movies on two engines, with one routing policy after the other.

    python -m bench.router_live [--model bench] [--rows 2000] [--repeats 3] [--policy e2_batch] [--ray] [--quick]
        [--json]

Two vLLM servers run on this machine, each in a process of its own. Their prefix caches are too small for the texts that
the prompts share, and they report what the caches hold. Policies take turns; each run begins with empty caches and no
cached answers. The figures are medians. They include the share of prompt tokens that the router expected to be cached
when it chose the replica, and when it sent the prompt. With `--ray` the two engines are actors on a Ray cluster on this
machine, which starts again for each run. `--quick` uses two fake engines.
"""

import argparse
import json
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast

from bench.common import cpu_seconds, machine, markdown, read_to_end
from bench.engines import CACHE_BLOCKS, IN_FLIGHT, engine_config, unwrapped
from bench.foreseen import watch
from bench.models import SHAPES, Shape, model
from bench.peers.server import MODEL, counters, forget_prefixes, vllm_server
from bench.samples import sample, write
from bench.setting import announce, open_database
from bench.suite import suites
from flightllm.config import EngineConfig
from flightllm.router.base import POLICIES

if TYPE_CHECKING:
    from flightllm.router.engine import RoutedEngine

REPLICAS: Final = 2
_BLOCK_TOKENS: Final = 32
_SETTINGS: Final = {"cache": "off"}
Figures = dict[str, Any]
Tables = list[Mapping[str, object]]


@contextmanager
def servers(shape: Shape, blocks: int, *further: str) -> Iterator[Tables]:
    """Start a vLLM server for each replica, and yield the replicas' options; stop them at the end.

    `further` are more arguments of the servers' command.
    """
    folder = model(shape)
    with ExitStack() as stack:
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="flightllm-kv-"))
        tables: Tables = []
        for number in range(REPLICAS):
            events = {"kv_events": f"ipc://{sockets}/{number}", "kv_replay": f"ipc://{sockets}/{number}-past"}
            told = {"endpoint": events["kv_events"], "replay_endpoint": events["kv_replay"]}
            arguments = ("--kv-events-config", json.dumps({"enable_kv_cache_events": True, **told}))
            kv_bytes = shape.kv_bytes(blocks * _BLOCK_TOKENS)
            url = stack.enter_context(vllm_server(folder, kv_bytes, IN_FLIGHT, *arguments, *further))
            common = {"tokenizer": str(folder), "api": "completions", "prompts_per_request": 8}
            cache = {"block_tokens": _BLOCK_TOKENS, "cache_blocks": blocks - 1}  # vLLM reserves one block
            tables.append({"kind": "openai", "base_url": f"{url}/v1", **common, **cache, **events})
        yield tables


def cluster(tables: Tables, policy: str) -> EngineConfig:
    """Return the engine that routes prompts to the replicas by a policy."""
    return EngineConfig("cluster", MODEL, 2 * IN_FLIGHT, {"policy": policy, "replicas": tables})


def on_ray(shape: Shape, blocks: int, policy: str) -> EngineConfig:
    """Return the engine that routes prompts by a policy to vLLM in actors."""
    cache = engine_config("vllm", shape, blocks, prefix_cache=True)
    replica = {"kind": "vllm", "max_in_flight": 2 * IN_FLIGHT, **cache.options, "kv_events": True}
    replica["engine_args"] = {**cast("dict[str, object]", replica["engine_args"]), "max_num_seqs": IN_FLIGHT}
    options = {"policy": policy, "min_replicas": REPLICAS, "num_cpus": 0.5, "replica": replica}
    return EngineConfig("ray", cache.model, 2 * IN_FLIGHT, options)


def empty(tables: Tables) -> None:
    """Empty the servers' prefix caches. A server reports this with its next prompt, so each one gets a prompt."""
    for table in tables:
        if table["kind"] == "openai":
            url = str(table["base_url"])
            forget_prefixes(url.removesuffix("/v1"))
            body = json.dumps({"model": MODEL, "prompt": "Warm up. " * 40, "max_tokens": 1}).encode()
            asked = urllib.request.Request(f"{url}/completions", body, {"Content-Type": "application/json"})  # noqa: S310
            with urllib.request.urlopen(asked):  # noqa: S310 - our own server's address
                pass


def counted(tables: Tables) -> dict[str, int]:
    """Return the prompt tokens and the cached prompt tokens that all servers counted so far.

    The result is empty for fake engines.
    """
    urls = [str(table["base_url"]).removesuffix("/v1") for table in tables if table["kind"] == "openai"]
    found = [counters(url) for url in urls]
    return {name: sum(one[name] for one in found) for name in ("prompt_tokens", "cached_tokens")} if found else {}


def run(config: EngineConfig, tables: Tables, files: Mapping[str, Path], sql: str) -> Figures:
    """Run the query on a new database with nothing cached anywhere; `tables` are the servers behind it."""
    empty(tables)
    with open_database(config, files) as database:
        engine = cast("RoutedEngine", unwrapped(database.engine))
        foreseen = watch(engine)
        before = counted(tables)
        started, busy = time.perf_counter(), cpu_seconds()
        result = database.session().execute(sql, settings=_SETTINGS)
        read_to_end(result.batches)
        seconds, spent = time.perf_counter() - started, cpu_seconds() - busy
        row = dict(result.query.row())
        if before:  # for a list of prompts, vLLM's answer reports only the last prompt's cached tokens
            row |= {name: after - before[name] for name, after in counted(tables).items()}
        answered = [status.answered for status in engine.status()]
    tokens = max(1, row["prompt_tokens"])
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(spent, 2),
        **{name: row[name] for name in ("rows", "calls", "prompt_tokens", "cached_tokens", "failed_rows")},
        "computed_tokens": row["prompt_tokens"] - row["cached_tokens"],
        "hit_rate": round(row["cached_tokens"] / tokens, 4),
        "expected_when_routed": round(foreseen.when_routed / tokens, 4),
        "expected_when_sent": round(foreseen.when_sent / tokens, 4),
        "most_prompts": max(answered),
    }


def medians(runs: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def table(found: Mapping[str, Figures]) -> str:
    """Return the figures as a Markdown table, a line for each policy."""
    heads: dict[str, Callable[[Figures], str]] = {
        "s": lambda one: f"{one['seconds']:.1f}",
        "CPU s": lambda one: f"{one['cpu_seconds']:.0f}",
        "prompt tokens": lambda one: f"{one['prompt_tokens']:,.0f}",
        "computed": lambda one: f"{one['computed_tokens']:,.0f}",
        "hit rate": lambda one: f"{100 * one['hit_rate']:.1f} %",
        "expected when sent": lambda one: f"{100 * one['expected_when_sent']:.1f} %",
        "when routed": lambda one: f"{100 * one['expected_when_routed']:.1f} %",
        "prompts of the busier": lambda one: f"{one['most_prompts']:,.0f}",
    }
    return markdown("policy", heads, found)


def measure(tables: Tables, given: argparse.Namespace) -> dict[str, list[Figures]]:
    """Run the query several times with each policy in turn; return the figures of each run."""
    suite = suites()["movies"]
    found: dict[str, list[Figures]] = {policy: [] for policy in given.policy}
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        files = write(sample(suite.pair, given.rows), Path(folder))
        for turn in range(given.repeats):
            for policy, runs in found.items():
                shape = SHAPES[given.model]
                config = on_ray(shape, given.cache_blocks, policy) if given.ray else cluster(tables, policy)
                runs.append(run(config, tables, files, suite.queries[given.query]))
                print(f"{policy}, {turn}: {json.dumps(runs[-1])}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="One query on two engines, routed by each policy.")
    parser.add_argument("--model", default="bench", choices=tuple(SHAPES))
    parser.add_argument("--rows", type=int, default=2_000, help="joined rows (default 2000)")
    parser.add_argument("--query", default="q2", choices=tuple(suites()["movies"].queries))
    parser.add_argument(
        "--cache-blocks", type=int, default=CACHE_BLOCKS, help="cache blocks of 32 tokens (default %(default)s)"
    )
    parser.add_argument("--policy", action="append", choices=POLICIES, help="default: all")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each policy (default 3)")
    parser.add_argument("--ray", action="store_true", help="engines in Ray actors")
    parser.add_argument("--quick", action="store_true", help="200 rows, once, on fake engines")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    given.policy = given.policy or list(POLICIES)
    if given.quick:
        given.rows, given.repeats = 200, 1
    announce("router_live", arguments)
    fakes: Tables = [{"kind": "fake", "cache_blocks": 2 * given.cache_blocks}] * REPLICAS
    with ExitStack() as stack:
        tables = fakes if given.quick else []
        if not given.quick and not given.ray:
            tables = stack.enter_context(servers(SHAPES[given.model], given.cache_blocks))
        found = measure(tables, given)
    middle = {policy: medians(runs) for policy, runs in found.items()}
    print(f"\n{given.rows} rows, {given.query}, medians of {given.repeats}\n\n{table(middle)}")
    if given.json:
        names = ("quick", "rows", "query", "model", "cache_blocks", "repeats", "ray")
        head = {"bench": "router_live", **{name: getattr(given, name) for name in names}}
        print(json.dumps({**head, "policies": middle, "runs": found, "machine": machine()}))


if __name__ == "__main__":
    main()
