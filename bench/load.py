"""Put 200 clients on one server for minutes: do they get right answers, and does the server's memory stay constant?

    python -m bench.load [--clients 200] [--seconds 300] [--workers 4] [--json] [--quick]

A supervised `flightllm serve` process runs on the fake engine. Client processes have one thread for each client. Each
client does one thing after another and pauses between them. The pauses matter because clients share the server's cores:
without them the clients would be measured. Threads, descriptors and memory are those of the server's process, in the
first minute after `--warmup` seconds and in the last minute. The exit code is 1 if a client got an error that it did
not provoke.
"""

import argparse
import multiprocessing
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean, quantiles

from bench.common import Options, report
from bench.load_client import KINDS, Outcome, Plan, run_clients

_CONFIG = """
data_folder = "{folder}/data"
[engine]
kind = "fake"
latency_ms = 20.0
max_in_flight = 256
[limits]
memory_bytes = 268_435_456
[recovery]
quarantine_seconds = 0
[log]
level = "warning"
"""
_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of the server at one time."""

    seconds: float
    threads: int
    descriptors: int
    worker_mib: float
    supervisor_mib: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--workers", type=int, default=4, help="client processes")
    parser.add_argument("--warmup", type=float, default=60.0, help="seconds before the first minute begins")
    parser.add_argument("--think", type=float, default=10.0, help="mean seconds between two things a client does")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="20 clients for 15 seconds")
    given = parser.parse_args(arguments)
    if given.quick:
        given.clients, given.seconds, given.workers, given.warmup, given.think = 20, 15.0, 2, 3.0, 1.0
    plan = Plan("", given.clients, given.seconds, given.think)
    with tempfile.TemporaryDirectory() as folder:
        figures, good = _run(Path(folder), plan, given.workers, given.warmup)
    report("load", Options(given.json, given.quick, 1), figures)
    return 0 if good else 1


def _run(folder: Path, plan: Plan, workers: int, warmup: float) -> tuple[dict[str, object], bool]:
    config = folder / "server.toml"
    config.write_text(_CONFIG.format(folder=folder))
    command = [sys.executable, "-m", "flightllm", "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            line = server.stdout.readline() if server.stdout else ""
            plan = Plan(line.removeprefix("listening ").strip(), plan.clients, plan.seconds, plan.think)
            outcomes, samples = _load(plan, workers, server.pid)
        finally:
            server.terminate()
            server.wait(60)
    errors = [f"{one.kind}: {one.error}" for one in outcomes if one.error]
    said = [line[:300] for line in (folder / "log").read_text().splitlines() if '"error"' in line or "error" in line]
    for text in (*dict.fromkeys(errors), *dict.fromkeys(said)):
        print(text, file=sys.stderr)
    growth = _growth(samples, warmup)
    figures: dict[str, object] = {
        "clients": plan.clients,
        "seconds": plan.seconds,
        "errors not provoked": len(errors),
        "errors in the server's log": len(said),
        **_latencies(outcomes, plan.seconds),
        **growth,
    }
    return figures, not errors and not said


def _load(plan: Plan, workers: int, server: int) -> tuple[list[Outcome], list[Sample]]:
    """Run the clients and sample the server's resources meanwhile."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        ended = threading.Event()
        samples: list[Sample] = []
        looking = threading.Thread(target=_look, args=(server, samples, ended))
        shares = [range(number, plan.clients, workers) for number in range(workers)]
        looking.start()
        try:
            outcomes = [one for part in pool.starmap(run_clients, [(plan, share) for share in shares]) for one in part]
        finally:
            ended.set()
            looking.join()
    return outcomes, samples


def _look(server: int, samples: list[Sample], ended: threading.Event) -> None:
    started = time.monotonic()
    worker = _worker(server)
    while not ended.wait(_SAMPLE_SECONDS):
        status = Path(f"/proc/{worker}/status").read_text()
        samples.append(
            Sample(
                time.monotonic() - started,
                int(_value(status, "Threads")),
                sum(1 for _ in Path(f"/proc/{worker}/fd").iterdir()),
                _value(status, "VmRSS") / 1024,
                _value(Path(f"/proc/{server}/status").read_text(), "VmRSS") / 1024,
            )
        )


def _worker(server: int) -> int:
    """Return the id of the process that serves, which is the first one that the supervisor started."""
    listed = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return min(map(int, listed))


def _value(status: str, name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+)", status)
    return float(found[1]) if found else 0.0


def _latencies(outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    """Return p50 and p99 of each kind of action in milliseconds, and the actions a second."""
    by_kind: Mapping[str, list[float]] = defaultdict(list)
    for one in outcomes:
        if one.error is None:
            by_kind[one.kind].append(one.seconds * 1000)
    figures: dict[str, object] = {"done per second": round(len(outcomes) / seconds, 1)}
    size = sum(one.bytes for one in outcomes) / (1 << 20) / seconds
    figures["MiB per second"] = round(size, 1)
    for kind in KINDS:
        found = sorted(by_kind.get(kind, []))
        if len(found) > 1:
            cuts = quantiles(found, n=100, method="inclusive")
            figures[kind] = {"count": len(found), "p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1)}
    return figures


def _growth(samples: Sequence[Sample], warmup: float) -> dict[str, object]:
    """Return the mean resources in the first minute after the warm-up and in the last minute."""
    end = samples[-1].seconds
    minute = min(60.0, max(1.0, (end - warmup) / 2))
    first = [one for one in samples if warmup <= one.seconds < warmup + minute]
    last = [one for one in samples if one.seconds >= end - minute]
    figures: dict[str, object] = {}
    for field in fields(Sample)[1:]:
        before, after = (mean(getattr(one, field.name) for one in part) for part in (first, last))
        name = field.name.replace("_", " ")
        figures[name] = {"first": round(before, 1), "last": round(after, 1), "ratio": round(after / before, 3)}
    return figures


if __name__ == "__main__":
    sys.exit(main())
