"""Compare random queries with the optimizer on and off: the same rows, and never more calls.

    python -m tests.sql [--first 0] [--count 2000]

Prints each query that differs and ends with 1 where there is one.
"""

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path

import structlog

from tests.databases import SAMPLES, small_database
from tests.sql.comparing import Outcome, compare
from tests.sql.random_queries import TABLES, random_query


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="random queries, optimizer on and off")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first query")
    parser.add_argument("--count", type=int, default=2_000)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        database = small_database(Path(folder), tables=SAMPLES)
        session = database.session()
        for table in TABLES:
            session.update(table)
        for seed in range(options.first, options.first + options.count):
            wrong, more = len(outcome.wrong), len(outcome.more)
            compare(session, random_query(seed), outcome)
            for text in (*outcome.wrong[wrong:], *outcome.more[more:]):
                print(f"seed {seed}: {text}\n", flush=True)  # noqa: T201 - the output of a command
        database.close()
    figures = {
        "queries": options.count,
        "wrong": len(outcome.wrong),
        "more calls": len(outcome.more),
        "refused": len(outcome.refused),
        "calls": outcome.calls,
        "calls without the optimizer": outcome.calls_off,
    }
    print(json.dumps(figures, indent=1))  # noqa: T201 - the output of a command
    return int(bool(outcome.wrong or outcome.more))


if __name__ == "__main__":
    sys.exit(main())
