"""Kill the server's process and measure how long until a query is answered again.

    python -m bench.recovery [--json] [--quick]

The spare process is there before each kill, as it is where deaths are rare. Needs /proc.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

from bench.common import parse_options, report
from tests.servers import SupervisedServer, await_true

SQL = "SELECT count(*) FROM generate_series(1, 1000)"
SETTINGS = '[engine]\nkind = "fake"\n[recovery]\nquarantine_seconds = 0'
_WARM_SECONDS = 5.0
"""Until the spare process has imported everything."""


def seconds_until_replaced() -> float:
    """Kill the process of a new server; return the seconds until another answers.

    A server of its own each time: further deaths within a minute are answered after a pause, by intent.
    """
    with tempfile.TemporaryDirectory() as folder, SupervisedServer(Path(folder), SETTINGS) as server:
        await_true(lambda: len(server.children()) == 2)
        time.sleep(_WARM_SECONDS)
        started = time.perf_counter()
        server.kill_worker()
        server.query_again(SQL)
        return time.perf_counter() - started


def main() -> None:
    """Print the median of several kills."""
    options = parse_options(__doc__ or "")
    seconds = [seconds_until_replaced() for _ in range(1 if options.quick else options.repeats)]
    report("recovery", options, {"kills": len(seconds), "seconds": median(seconds), "most_seconds": max(seconds)})


if __name__ == "__main__":
    main()
