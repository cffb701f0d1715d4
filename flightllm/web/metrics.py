"""Prometheus metrics: the server's counts, read when a scrape asks for them."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import SummaryMetricFamily
from prometheus_client.registry import Collector

from flightllm.access.store import DEFAULT_MODEL
from flightllm.flight.load import ServerLoad
from flightllm.flight.server import FlightSqlServer
from flightllm.observe.model_calls import COUNTED, Durations, ModelCalls
from flightllm.observe.query_log import Totals
from flightllm.router.replica import ReplicaStatus
from flightllm.session.database import Database
from flightllm.web.engine_load import prompts_in_flight

_SUMS = {
    "rows": ("flightllm_rows", "Rows that queries returned and that other statements changed."),
    "bytes": ("flightllm_result_bytes", "Bytes of the rows that queries returned."),
    "calls": ("flightllm_ai_calls", "Prompts sent to models."),
    "cache_hits": ("flightllm_ai_answers_reused", "Prompts answered from the answer cache."),
    "failed_rows": ("flightllm_ai_failed_rows", "Rows without a usable answer."),
    "prompt_tokens": ("flightllm_prompt_tokens", "Tokens of prompts, including those from the prefix cache."),
    "cached_tokens": ("flightllm_cached_tokens", "Tokens of prompts that the engine's prefix cache served."),
    "completion_tokens": ("flightllm_completion_tokens", "Tokens of answers."),
}
"""Name and meaning of each sum of `Totals`."""

_BY_SITE = (
    "Prompts sent to a model by a call site; system.ai_calls shows the text of a site.",
    "Tokens of a call site's prompts, including those from the prefix cache.",
    "Tokens of a call site's prompts that the engine's prefix cache served.",
    "Tokens of the answers to a call site.",
    "Rows of a call site without a usable answer.",
)
"""The meaning of each counter in `COUNTED`."""

_REPLICAS: Mapping[str, tuple[str, Callable[[ReplicaStatus], float]]] = {
    "up": ("Whether a replica is up.", lambda one: one.state == "up"),
    "in_flight": ("Prompts that the replica is answering.", lambda one: one.in_flight),
    "waiting": ("Prompts that wait to be sent to the replica.", lambda one: one.waiting),
    "load_seconds": ("Predicted time for both, in seconds.", lambda one: one.load_seconds),
    "prefix_hit_ratio": (
        "Share of the replica's prompt tokens that its prefix cache served.",
        lambda one: one.cached_tokens / max(1, one.prompt_tokens),
    ),
}
"""Name, meaning and value of each metric of a replica."""

_COUNT_SECONDS = 30.0
"""The greatest age of the count of cached answers: counting reads all of them."""


class Metrics:
    """The metrics of one server and its process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, database: Database, server: FlightSqlServer) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ServerCollector(database, server))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the current values of all metrics, in the text format."""
        return generate_latest(self._registry)


class _ServerCollector(Collector):
    """A collector of a server's own counts."""

    def __init__(self, database: Database, server: FlightSqlServer) -> None:
        self._database = database
        self._server = server

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry has only this server's metrics, so names need no check."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        totals = self._database.queries.totals()
        yield from _of_statements(totals)
        yield from _of_models(totals.model_calls)
        yield from _of_load(self._server.load())
        replicas = self._database.replicas
        yield from self._of_engine(sum(model == DEFAULT_MODEL for model, _ in replicas))
        yield from _of_replicas(replicas)
        cache = self._database.cache.stats(_COUNT_SECONDS)
        yield _counter("flightllm_cache_hits", "Answers found in the answer cache.", cache.hits)
        yield _counter("flightllm_cache_misses", "Answers not found in the answer cache.", cache.misses)
        yield _gauge("flightllm_cache_entries", "Cached answers.", cache.entries)
        yield _gauge("flightllm_cache_bytes", "Bytes of the cached answers.", cache.bytes)
        tables = self._database.decoded
        yield _counter("flightllm_table_cache_hits", "Reads of whole tables from memory.", tables.hits)
        yield _counter("flightllm_table_cache_misses", "Reads of whole tables from their files.", tables.misses)
        yield _gauge("flightllm_table_cache_tables", "Tables in memory.", tables.tables)
        yield _gauge("flightllm_table_cache_bytes", "Bytes of the tables in memory.", tables.bytes)
        spilled = self._database.spilled_bytes
        yield _counter("flightllm_spilled_bytes", "Bytes that DataFusion wrote to disk for lack of memory.", spilled)
        text = "Processes that run statements, or parts of statements, which can take much memory or time."
        yield _gauge("flightllm_isolated_processes", text, self._database.isolated)
        yield _gauge("flightllm_threads", "Threads of the process.", _threads())

    def _of_engine(self, replicas: int) -> Iterator[Metric]:
        config, in_flight = self._database.config.engine, prompts_in_flight(self._database)
        yield _gauge("flightllm_engine_up", "Whether the engine answers.", self._database.engine_up)
        yield _gauge("flightllm_engine_in_flight", "Prompts that the engine is answering.", in_flight)
        window = config.max_in_flight * max(1, replicas)
        yield _gauge("flightllm_engine_max_in_flight", "Prompts that the engine can answer at once.", window)


def _of_statements(totals: Totals) -> Iterator[Metric]:
    statements = CounterMetricFamily(
        "flightllm_statements", "Statements that have ended, by kind and status.", labels=["kind", "status"]
    )
    for (kind, status), count in totals.statements.items():
        statements.add_metric([kind, status], count)
    yield statements
    durations = HistogramMetricFamily("flightllm_statement_duration_seconds", "How long statements ran.")
    durations.add_metric([], *_histogram(totals.durations))
    yield durations
    for name, (metric, text) in _SUMS.items():
        yield _counter(metric, text, totals.sums[name])
    prompts = totals.sums["prompt_tokens"]
    ratio = totals.sums["cached_tokens"] / prompts if prompts else 0.0
    yield _gauge("flightllm_prefix_hit_ratio", "Share of the prompts' tokens that the prefix cache served.", ratio)
    yield _counter("flightllm_cost", "Cost of the model's calls, in the configured currency.", totals.cost)


def _of_models(calls: ModelCalls) -> Iterator[Metric]:
    for at, (name, text) in enumerate(zip(COUNTED, _BY_SITE, strict=True)):
        family = CounterMetricFamily(f"flightllm_site_{name}", text, labels=["model", "function", "site"])
        for labels, counts in calls.sites.items():
            family.add_metric(labels, counts[at])
        yield family
    text = "How long a model took, from sending a prompt to its answer."
    durations = HistogramMetricFamily("flightllm_model_call_duration_seconds", text, labels=["model"])
    for model, one in calls.durations.items():
        durations.add_metric([model], *_histogram(one))
    yield durations


def _histogram(durations: Durations) -> tuple[list[tuple[str, float]], float]:
    """Return the sums of the buckets up to each bound, and the sum of all durations."""
    bounds = [*map(str, durations.bounds), "+Inf"]
    return list(zip(bounds, accumulate(durations.counts), strict=True)), durations.seconds


def _of_replicas(replicas: list[tuple[str, ReplicaStatus]]) -> Iterator[Metric]:
    labels = ["model", "replica"]
    for name, (text, value) in _REPLICAS.items():
        family = GaugeMetricFamily(f"flightllm_replica_{name}", text, labels=labels)
        for model, one in replicas:
            family.add_metric([model, one.name], value(one))
        yield family


def _of_load(load: ServerLoad) -> Iterator[Metric]:
    yield _gauge("flightllm_statements_running", "Statements that are running.", load.running)
    text = "Running statements that could not be stopped and that no client waits for."
    yield _gauge("flightllm_statements_left_behind", text, load.left_behind)
    yield _gauge("flightllm_statements_limit", "Statements that can run at once.", load.places)
    yield _gauge("flightllm_statements_queued", "Statements that wait for their turn.", load.queued)
    waits = SummaryMetricFamily("flightllm_queue_wait_seconds", "How long statements waited for their turn.")
    waits.add_metric([], load.waits, load.waited_seconds)
    yield waits
    yield _gauge("flightllm_sessions", "Open sessions.", load.sessions)
    yield _gauge("flightllm_draining", "Whether the server is shutting down.", load.draining)
    yield _counter("flightllm_received_bytes", "Bytes of uploads and parameters.", load.received_bytes)
    refusals = CounterMetricFamily("flightllm_refusals", "Refusals, by the limit that caused them.", labels=["limit"])
    for limit, count in load.refusals.items():
        refusals.add_metric([limit], count)
    yield refusals


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _threads() -> int:
    """Return the number of threads; on Linux including those of DataFusion and gRPC."""
    tasks = Path("/proc/self/task")
    return len(os.listdir(tasks)) if tasks.exists() else threading.active_count()  # noqa: PTH208 - no paths are wanted
