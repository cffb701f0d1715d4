"""Run questions in a database whose model is the labelled endpoint, and count at the endpoint."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from genai_prices.data_snapshot import get_snapshot

from bench.sembench import published
from bench.sembench.endpoint import MODEL
from bench.sembench.errors import Errors
from bench.sembench.gold import Rows
from bench.sembench.labels import FOLDER, files
from bench.sembench.metrics import METRICS
from bench.setting import open_database
from flightllm.config import EngineConfig
from flightllm.session.database import Database

IN_FLIGHT: Final = 20
"""The requests at a time, as in the published runs."""
_MILLION: Final = 1_000_000
_COUNTS: Final = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "unread")


@dataclass(frozen=True, slots=True)
class Running:
    """A running endpoint."""

    url: str

    def get(self, path: str) -> Mapping[str, Any]:
        """Return what the endpoint says at a path."""
        with urllib.request.urlopen(f"{self.url}/{path}") as answered:  # noqa: S310 - this script's own endpoint
            found: Mapping[str, Any] = json.loads(answered.read())
        return found


@contextmanager
def running(data: Path, errors: Errors) -> Iterator[Running]:
    """Run the endpoint in a process of its own."""
    command = [sys.executable, "-m", "bench.sembench.endpoint", str(data / FOLDER)]
    command += ["--error", str(errors.rate), "--seed", str(errors.seed)]
    command += ["--independent"] if errors.independent else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = process.stdout.readline() if process.stdout else ""
            yield Running(f"http://127.0.0.1:{int(port)}")
        finally:
            process.kill()


@contextmanager
def opened(data: Path, url: str) -> Iterator[Database]:
    """Open a new database over the two tables, without kept answers, with the endpoint as its model."""
    engine = EngineConfig("openai", MODEL, IN_FLIGHT, {"base_url": f"{url}/v1"})
    with open_database(engine, {name.lower(): path for name, path in files(data).items()}) as database:
        yield database


def asked(database: Database, endpoint: Running, question: str, sql: str, right: Rows) -> tuple[dict[str, Any], Rows]:
    """Run one question; return its figures and its rows."""
    endpoint.get("begin")
    began = time.perf_counter()
    rows = rows_of(database, sql)
    seconds = time.perf_counter() - began
    counted = endpoint.get("counted")
    figures = {name: counted[name] for name in _COUNTS}
    return {
        **figures,
        "tokens": figures["prompt_tokens"] + figures["completion_tokens"],
        "seconds": round(seconds, 3),
        "rows": len(rows),
        **{name: round(value, 4) for name, value in METRICS[question](rows, right).items()},
        "dollars": round(dollars(figures), 6),
        **({"sample": counted["sample"]} if counted["unread"] else {}),
    }, rows


def rows_of(database: Database, sql: str) -> Rows:
    """Return the rows of a query."""
    batches = list(database.session().execute(sql).batches)
    found = pa.Table.from_batches(batches) if batches else pa.table({})
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def dollars(figures: Mapping[str, Any]) -> float:
    """Return what the tokens cost at the list price of the published runs' model, without a prefix cache.

    The model's own cache begins at prompts that are longer than those of all ten questions.
    """
    _, found = get_snapshot().find_provider_model(published.MODEL, None, "google", None)
    listed = found.get_prices(datetime.now(UTC))
    input_, output = (float(str(one)) for one in (listed.input_mtok, listed.output_mtok))  # without tiers
    return (int(figures["prompt_tokens"]) * input_ + int(figures["completion_tokens"]) * output) / _MILLION


def total(figures: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the sums of some questions' figures."""
    names = (*_COUNTS, "tokens", "seconds", "dollars")
    return {name: round(sum(one[name] for one in figures), 6) for name in names}
