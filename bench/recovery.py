"""Kill the server's process and measure how long until a query is answered again.

    python -m bench.recovery [--json] [--quick]

The spare process is ready before each kill, as it is in practice when crashes are rare. The script needs /proc.
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
"""The seconds that the spare process needs to import everything."""


def seconds_until_replaced() -> float:
    """Kill the process of a new server; return the seconds until the next process answers.

    Each call starts a new server, because the supervisor delays restarts after further deaths within a minute.
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
