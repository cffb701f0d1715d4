"""How fast does the server stream a stored table, compared with bare pyarrow Flight servers?

    python -m bench.streaming [--json] [--quick]

Four servers run in processes of their own, and one client reads from them in turn:

- `memory` has the rows in memory and streams them only with C++, which shows what the connection can carry
- `scan` streams DataFusion's scan of the file that our server stored, in batches of the best size for this scan
- `flightllm` is `flightllm serve`, which returns an uploaded table for an SQL query
- `decoding` is the same server without its cache of decoded tables, so that it decodes the file for every read

`ratio` is the speed of `decoding` divided by that of `scan`. `memory_ratio` is the speed of `flightllm` divided by that
of `memory`. `first_memory_ratio` divides the first read of `flightllm` after its start by the first read of `memory`.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
from adbc_driver_flightsql import dbapi
from datafusion import SessionContext
from pyarrow import flight

from bench.common import parse_options, report, timed
from bench.setting import announce
from flightllm.client import Client
from flightllm.datafusion.contexts import plain_config
from flightllm.demo.process import running_server, stop

SIZE: Final = 10**9
QUICK_SIZE: Final = 2**28
ROW_BYTES: Final = 40
_NO_CACHE: Final = "[limits]\ntable_cache_bytes = 0\n"
BATCH_ROWS: Final = 32_768
"""1.25 MiB a batch."""
_SCAN_ROWS: Final = 52_428
"""2 MiB a batch: twice as fast here as DataFusion's own 8,192 rows."""


def table(size: int) -> pa.Table:
    """Return a table of about `size` bytes: three 64-bit columns and one column of short texts."""
    rows = size // ROW_BYTES
    random = np.random.default_rng(0)
    texts = pa.array([f"text {i:07d}" for i in range(10_000)]).take(pa.array(random.integers(0, 10_000, rows)))
    columns = {"id": np.arange(rows), "price": random.random(rows), "stock": random.integers(0, 9, rows), "name": texts}
    return pa.table(columns)


class BareServer(flight.FlightServerBase):
    """A server that answers every ticket with a new stream of the same rows."""

    def __init__(self, rows: Callable[[], pa.Table | pa.RecordBatchReader]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._rows = rows

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Return a stream of the rows that runs without Python code."""
        return flight.RecordBatchStream(self._rows())


def serve(kind: str, what: str) -> None:
    """Print the port and serve until killed.

    `memory` serves a table of `what` bytes, `scan` serves the data files at the path `what`.
    """
    if kind == "memory":
        data = pa.Table.from_batches(table(int(what)).to_batches(BATCH_ROWS))
        server = BareServer(lambda: data)
    else:
        server = BareServer(lambda: _scan(what))
    print(server.port, flush=True)
    server.wait()


def _scan(path: str) -> pa.RecordBatchReader:
    context = SessionContext(plain_config().set("datafusion.execution.batch_size", str(_SCAN_ROWS)))
    context.register_parquet("big", path)
    return pa.RecordBatchReader.from_stream(context.sql("SELECT * FROM big"))


@contextmanager
def bare(kind: str, what: str) -> Iterator[str]:
    """Run a bare server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "bench.streaming", "serve", kind, what]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError(f"the bare server {kind!r} ended with the exit code {process.wait()}")
        yield f"grpc://127.0.0.1:{int(line)}"
    finally:
        stop(process)


def read_bare(uri: str) -> int:
    """Read the table from a bare server; return its number of rows."""
    with flight.connect(uri) as client:
        return sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(b"")))


def read_ours(uri: str) -> int:
    """Read the table by SQL; return its number of rows."""
    with Client(uri) as client:
        return sum(batch.num_rows for batch in client.query("SELECT * FROM big")[1])


def upload(uri: str, data: pa.Table) -> None:
    """Create the table `big` with these rows."""
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("big", data.to_reader(BATCH_ROWS), mode="create")


def measure(size: int, runs: int) -> dict[str, float]:
    """Read from the servers in turn, `runs` times after two reads; return medians in MiB/s and their ratios.

    Raises:
        RuntimeError: a server did not return all rows.
    """
    data = table(size)
    rows, mebibytes = data.num_rows, data.nbytes / 2**20

    def speed(read: Callable[[str], int], uri: str) -> float:
        found: list[int] = []
        seconds = timed(lambda: found.append(read(uri)))
        if found != [rows]:
            raise RuntimeError(f"{uri} returned {found:,} rows instead of {rows:,}")
        return float(mebibytes / seconds)

    with ExitStack() as servers:
        ours = servers.enter_context(running_server(["--engine", "fake"], {}))
        decoding = servers.enter_context(running_server(["--engine", "fake"], {}, settings=_NO_CACHE))
        upload(ours.uri, data)
        upload(decoding.uri, data)
        del data
        files = ours.log.parent / "data" / "tables" / "files"
        addresses = {
            "memory": servers.enter_context(bare("memory", str(size))),
            "scan": servers.enter_context(bare("scan", f"{files}/")),
        }
        own = {"flightllm": ours.uri, "decoding": decoding.uri}

        def round_() -> dict[str, float]:
            bare_speeds = {name: speed(read_bare, uri) for name, uri in addresses.items()}
            return bare_speeds | {name: speed(read_ours, uri) for name, uri in own.items()}

        first = round_()
        round_()  # in which `flightllm` keeps the decoded rows
        found = [round_() for _ in range(runs)]
        stored = sum(file.stat().st_size for file in Path(files).iterdir())
    speeds = {name: median(one[name] for one in found) for name in first}
    return {
        "bytes": size,
        "stored_bytes": stored,
        **{f"{name}_mib_per_second": round(value, 1) for name, value in speeds.items()},
        "ratio": round(speeds["decoding"] / speeds["scan"], 3),
        "memory_ratio": round(speeds["flightllm"] / speeds["memory"], 3),
        "first_memory_ratio": round(first["flightllm"] / first["memory"], 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, or one of its servers, with the arguments of the command line."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["serve"]:
        serve(given[1], given[2])
        return
    options = parse_options("Result streaming: FlightLLM beside bare pyarrow Flight servers.", given)
    announce("streaming", given)
    report("streaming", options, measure(QUICK_SIZE if options.quick else SIZE, options.repeats))


if __name__ == "__main__":
    main()
