"""Stream one in-memory table through the whole server and through a bare pyarrow Flight server.

    python -m bench.streaming [--json] [--quick]

Each server is a process of its own; one client reads both in turn. The figure is the ratio of the medians.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyarrow import flight

from bench.common import parse_options, report
from flightllm.client import Client

ROW_BYTES = 40
BATCH_ROWS = 32_768
"""1.25 MiB a batch."""


def table(size: int) -> pa.Table:
    """Make a table of about `size` bytes: three 64-bit columns and one of short texts."""
    rows = size // ROW_BYTES
    random = np.random.default_rng(0)
    texts = pa.array([f"text {i:07d}" for i in range(10_000)]).take(pa.array(random.integers(0, 10_000, rows)))
    columns = {"id": np.arange(rows), "price": random.random(rows), "stock": random.integers(0, 9, rows), "name": texts}
    return pa.table(columns)


class BareServer(flight.FlightServerBase):
    """Answer every ticket with the same batches."""

    def __init__(self, data: pa.Table) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._data = data

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the batches from C++ alone."""
        return flight.RecordBatchStream(pa.Table.from_batches(self._data.to_batches(BATCH_ROWS)))


def serve(kind: str, size: int) -> None:
    """Serve the table until killed; print the port."""
    data = table(size)
    if kind == "bare":
        server = BareServer(data)
    else:
        from flightllm.config import Config, EngineConfig, ServerConfig
        from flightllm.database import Database
        from flightllm.flight.server import FlightSqlServer

        folder = Path(tempfile.mkdtemp())
        config = replace(Config(), engine=EngineConfig(kind="fake"), data_folder=folder)
        database = Database.open(config)
        database.session().ingest("big", data.to_batches(BATCH_ROWS), data.schema, "create")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), config.limits)
    print(server.port, flush=True)
    server.wait()


@contextmanager
def running(kind: str, size: int) -> Iterator[str]:
    """Run a server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "bench.streaming", "serve", kind, str(size)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        yield f"grpc://127.0.0.1:{int(line)}"
    finally:
        process.kill()
        process.wait()


def read_bare(uri: str) -> int:
    """Read the table from the bare server; return its bytes."""
    with flight.connect(uri) as client:
        return sum(chunk.data.nbytes for chunk in client.do_get(flight.Ticket(b"")))


def read_ours(uri: str) -> int:
    """Read the table by SQL; return its bytes."""
    with Client(uri) as client:
        return sum(batch.nbytes for batch in client.query("SELECT * FROM big")[1])


def speed(read: Callable[[str], int], uri: str) -> float:
    """Return MiB a second of one read."""
    started = time.perf_counter()
    return read(uri) / 2**20 / (time.perf_counter() - started)


def measure(size: int, runs: int) -> dict[str, float]:
    """Read from both servers in turn, `runs` times after a warm-up; return medians in MiB/s and their ratio."""
    with running("bare", size) as bare, running("flightllm", size) as ours:
        read_bare(bare), read_ours(ours)
        speeds = [(speed(read_bare, bare), speed(read_ours, ours)) for _ in range(runs)]
    bare_speed, our_speed = (median(column) for column in zip(*speeds, strict=True))
    return {
        "bytes": size,
        "bare_mib_per_second": round(bare_speed, 1),
        "flightllm_mib_per_second": round(our_speed, 1),
        "ratio": round(our_speed / bare_speed, 3),
    }


def main() -> None:
    """Run the benchmark, or one of its servers, as the command line says."""
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
        return
    options = parse_options("Result streaming: FlightLLM beside a bare pyarrow Flight server.")
    report("streaming", options, measure(2**28 if options.quick else 10**9, options.repeats))


if __name__ == "__main__":
    main()
