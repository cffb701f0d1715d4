"""What do queries lose at HTTP endpoints that misbehave, and what does another user's query wait for?

    python -m bench.endpoints [--only WORDS] [--rows 200] [--quick] [--json]

An endpoint in a process of its own answers each row in 50 ms, or misbehaves by one of 12 kinds. Two users ask at the
same time, each about all rows of its own in one query. The second user also asks about one row four times a second.

The figures are of both users: the rows with an answer and without, and the HTTP requests for each row. Beside the
seconds until both queries end stand those that the endpoint itself needs at least for the rows of both. The last figure
is the 99th percentile of the queries of one row.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any

from bench.common import at_least_one, machine, markdown
from bench.misbehaving import KINDS, Kind
from bench.setting import announce, open_database
from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session

_ASIDE_SECONDS = 0.25
_QUICK_ROWS = 20
_OTHER = Principal("ada", "readonly")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="the kinds whose name has one of these words, between commas")
    parser.add_argument("--rows", type=at_least_one, default=200, help="rows of the query (default: 200)")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_ROWS} rows")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    options = parser.parse_args(arguments)
    announce("endpoints", arguments)
    rows = _QUICK_ROWS if options.quick else options.rows
    words = [word.strip() for word in options.only.split(",")]
    found = {}
    for kind in (kind for kind in KINDS if any(word in kind.name for word in words)):
        found[kind.name] = measure(kind, rows)
        print(f"# {kind.name}: {found[kind.name]}", flush=True)
    heads = ("answered", "null", "requests_a_row", "seconds", "best_seconds", "other_p99")
    print(markdown("kind", {name: partial(_cell, name) for name in heads}, found))
    if options.json:
        print(json.dumps({"bench": "endpoints", "rows": rows, "kinds": found, "machine": machine()}))


def measure(kind: Kind, rows: int) -> Mapping[str, float]:
    """Return the figures of one kind."""
    with running(kind) as url, open_database(EngineConfig("fake", "demo", 8, {})) as database:
        session = database.session()
        told = "".join(f", {name} {value!r}" for name, value in kind.options.items())
        session.update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'any', base_url '{url}/v1'{told})")
        database.access.store.add_user(User(_OTHER.name, _OTHER.role))
        session.update(f"GRANT USAGE ON MODEL m TO {_OTHER.name}")
        _get(f"{url}/begin")
        ended = threading.Event()
        sessions = session, database.session(_OTHER)
        with ThreadPoolExecutor(len(sessions) + 1) as users:
            began = time.monotonic()
            aside = users.submit(_ask_aside, database, ended)
            try:
                asking = [users.submit(_rows, one, _all_rows(place, rows)) for place, one in enumerate(sessions)]
                found = [row for one in asking for row in one.result()]
                seconds = time.monotonic() - began
            finally:
                ended.set()
            waits = aside.result()
        asked, _ = _get(f"{url}/asked")
    answered = sum(row["a"]["value"] is not None for row in found)
    lost = kind.lost * len(sessions)
    return {
        "users": len(sessions),
        "answered": answered,
        "null": len(found) - answered,
        "lost": lost,
        "requests_a_row": round(asked / len(found), 3),
        "seconds": round(seconds, 2),
        "best_seconds": round(kind.best_seconds(len(found) - lost), 2),
        "other_queries": len(waits),
        "other_p99": round(sorted(waits)[ceil(0.99 * len(waits)) - 1], 2),
    }


@contextmanager
def running(kind: Kind) -> Iterator[str]:
    """Run an endpoint of a kind; yield its address."""
    command = [sys.executable, "-m", "bench.misbehaving", kind.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = process.stdout.readline() if process.stdout else ""
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.kill()


def _cell(name: str, figures: Mapping[str, float]) -> str:
    return f"{figures[name]:g}"


def _get(url: str) -> list[int]:
    with urllib.request.urlopen(url) as answered:  # noqa: S310 - this script's own endpoint
        found: list[int] = json.loads(answered.read())
    return found


def _all_rows(user: int, rows: int) -> str:
    """Return a user's query. The users have different texts, because the server asks about equal texts once."""
    texts = f"SELECT v, 'ROW' || v || '. User {user}.' AS t FROM generate_series(1, {rows}) AS g(v)"
    return f"SELECT v, ai_gen('Say', t, model => 'm', on_error => 'struct') AS a FROM ({texts})"


def _rows(session: Session, sql: str) -> list[dict[str, Any]]:
    return [row for batch in session.execute(sql).batches for row in batch.to_pylist()]


def _ask_aside(database: Database, ended: threading.Event) -> list[float]:
    """Ask about one row again and again as another user; return how many seconds each query takes."""
    session, waits = database.session(_OTHER), list[float]()
    while not (waits and ended.wait(_ASIDE_SECONDS)):
        began = time.monotonic()
        _rows(session, f"SELECT ai_gen('Other {len(waits)}', 'one', model => 'm') AS a")
        waits.append(time.monotonic() - began)
    return waits


if __name__ == "__main__":
    main()
