"""Send any number of malformed commands, tickets, uploads, plans and SQL texts to a server.

    python -m tests.fuzz [--seed 1] [--count 100000] [--threads 4] [--show NUMBER]

Ends with 1 where the server's process died, told what it must not, took twice the memory, or an answer was a defect's.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.run import fuzz, make


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="malformed input for a server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print one input and send nothing")
    options = parser.parse_args()
    if options.show is not None:
        print(*make(options.seed, options.show))  # noqa: T201 - the output of a command
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen = fuzz(Path(folder), options.seed, options.count, first=options.first, threads=options.threads)
    totals = Counter(status.rpartition(": ")[2] for status in seen.statuses.elements())
    figures = {
        "seconds": round(time.monotonic() - started),
        "by kind": dict(sorted(seen.statuses.items())),
        "by status": dict(totals.most_common()),
        "MiB": seen.memory,
        "processes": len(seen.workers),
        "findings": len(seen.findings),
    }
    for text, number in seen.defects.most_common(50):
        print(f"{number} times in the log: {text}")  # noqa: T201 - the output of a command
    print(json.dumps(figures, indent=1))  # noqa: T201 - the output of a command
    grows = seen.memory[-1] > 2 * seen.memory[len(seen.memory) // 10]
    return int(bool(seen.findings or seen.defects) or len(seen.workers) != 1 or grows)


if __name__ == "__main__":
    sys.exit(main())
