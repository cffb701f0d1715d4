"""Run queries cold: each in a new database and with an empty prefix cache, over an engine that is warm.

A query profits from nothing that ran before it. A new database has no statistics of columns, no figures learned from
answers, and no cached answers. EXPLAIN runs in a database of its own. An engine also keeps compiled grammars. They are
there before every timed query, because `ColdRuns.warm` runs each form of query over a few rows. This does not hold for
`local`: each of its queries gets a new engine.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.common import cpu_seconds, read_to_end
from bench.engines import forget_prefixes, keeps_prefixes, least_tokens, requests_sent
from bench.setting import database_over, open_database
from flightllm.config import EngineConfig
from flightllm.llm.engine import Engine, Request
from flightllm.session.database import Database

BASE: Final = {"cache": "off", "ordering": "none", "layout": "instruction", "dedup": "off", "rules": "off"}
_WARM_UP: Final = (
    "SELECT ai_gen('Warm up.', 'text',"
    " max_tokens => 8, on_truncated => 'keep'), ai_filter('Warm up?', 'text'), ai_score('Warm up?', 'text')"
)
_TIMES: Final = ("seconds", "cpu_seconds")
_COUNTS: Final = ("rows", "calls", "prompt_tokens", "cached_tokens", "failed_rows")
LEAST: Final = ("least_tokens", "least_block_tokens", "any_order_tokens")
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The configuration of one step: its settings, and whether the engine has a prefix cache."""

    name: str
    prefix_cache: bool
    settings: Mapping[str, str]


class FailedRowsError(RuntimeError):
    """Rows of a step failed, so that the seconds and tokens are not those of the whole query."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(f"step '{step}': {message}")
        self.step = step


Run = Callable[[str, Step], Figures]


class ColdRuns:
    """Runs queries over one open engine, each in a new database and with an empty prefix cache.

    For an engine that cannot forget its prefixes, each query gets a new engine. `prepare` is called with each new
    database before its query. `planner` is the database for EXPLAIN.
    """

    def __init__(
        self,
        config: EngineConfig,
        engine: Engine,
        planner: Database,
        files: Mapping[str, Path],
        prepare: Callable[[Database], object],
    ) -> None:
        self._config = config
        self._engine = engine
        self._planner = planner
        self._files = files
        self._prepare = prepare

    def __call__(self, sql: str, step: Step) -> Figures:
        """Run a query to its end; return seconds, counts, bounds, and the hit rate that EXPLAIN predicts.

        Raises:
            FailedRowsError: rows failed.
        """
        with self._new(self._files) as database:
            self._prepare(database)
            counted, sent = run_step(database, sql, step)
            if failed := counted["failed_rows"]:
                rows = "row" if failed == 1 else "rows"
                raise FailedRowsError(
                    step.name,
                    f"{failed:,} {rows} failed, and a failed row saves tokens and seconds. "
                    f"Run the query with on_error => 'struct' to see the errors: {sql}",
                )
            bounds = least_tokens(database.engine, sent)
        return summed([counted | bounds]) | {"predicted_hit_rate": predicted_hit_rate(self._planner, sql, step)}

    def warm(self, queries: Iterable[str], files: Mapping[str, Path], step: Step) -> None:
        """Run each query once over a few rows in `files`, so that its grammar is compiled and the code is loaded."""
        for sql in queries:
            with self._new(files) as database:
                self._prepare(database)
                run_step(database, sql, step)

    @contextmanager
    def _new(self, files: Mapping[str, Path]) -> Iterator[Database]:
        if keeps_prefixes(self._engine):
            forget_prefixes(self._engine)
            with database_over(self._engine, self._config, files) as database:
                yield database
        else:
            with open_database(self._config, files) as database:
                yield database


@contextmanager
def cold_runs(
    engine: Callable[..., EngineConfig],
    files: Mapping[str, Path],
    *,
    prefix_cache: bool,
    prepare: Callable[[Database], object] = Database.session,
) -> Iterator[ColdRuns]:
    """Open an engine with or without a prefix cache; yield what runs queries over it."""
    config = engine(prefix_cache=prefix_cache)
    with open_database(config, {}) as holder, database_over(holder.engine, config, files) as planner:
        prepare(planner)
        read_to_end(holder.session().execute(_WARM_UP, settings=BASE).batches)
        yield ColdRuns(config, holder.engine, planner, files, prepare)


def run_step(database: Database, sql: str, step: Step) -> tuple[Figures, list[Request]]:
    """Run a query to its end; return wall seconds, CPU seconds and counts, and the requests that the engine got."""
    with requests_sent(database.engine) as sent:
        started, busy = time.perf_counter(), cpu_seconds()
        result = database.session().execute(sql, settings=step.settings)
        read_to_end(result.batches)
        spent = {"seconds": time.perf_counter() - started, "cpu_seconds": cpu_seconds() - busy}
    row = result.query.row()
    return {**spent, **{name: row[name] for name in _COUNTS}}, sent


def predicted_hit_rate(database: Database, sql: str, step: Step) -> float:
    """Return the share of prompt tokens that EXPLAIN expects to be in the prefix cache."""
    result = database.session().execute(f"EXPLAIN (FORMAT json) {sql}", settings=step.settings)
    (text,) = (text for batch in result.batches for text in batch.column(0).to_pylist())
    return round(float(json.loads(text)["total"]["predicted"]["prefix_hit_rate"]), 4)


def summed(parts: Sequence[Figures]) -> Figures:
    """Return the sums of the figures, with the computed prompt tokens and the share that was cached.

    A bound that one of the parts lacks is None.
    """
    bounds = (*LEAST, "undivided_prompts")
    total: Figures = {name: sum(part[name] for part in parts) for name in (*_TIMES, *_COUNTS)}
    for name in bounds:
        known = [part.get(name) for part in parts]
        total[name] = None if None in known else sum(known)
    total["computed_tokens"] = total["prompt_tokens"] - total["cached_tokens"]
    total["hit_rate"] = round(total["cached_tokens"] / max(1, total["prompt_tokens"]), 4)
    return total | {name: round(total[name], 2) for name in _TIMES}


def merged(rounds: Sequence[Figures]) -> Figures:
    """Return the medians of the seconds over all rounds, each with the least and the most.

    The counts are those of one round: the one whose computed tokens are the (lower) median.
    """
    ordered = sorted(rounds, key=lambda one: one["computed_tokens"])
    found = dict(ordered[(len(ordered) - 1) // 2])
    for name in _TIMES:
        values = [one[name] for one in rounds]
        found |= {name: round(statistics.median(values), 2), f"least_{name}": min(values), f"most_{name}": max(values)}
    return found
