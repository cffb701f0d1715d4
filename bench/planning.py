"""Plan AI queries without running them: milliseconds from the SQL text to stages that are ready to run, phase by phase.

    python -m bench.planning [--json] [--quick]

The target is under 60 ms for an AI query over a join of six tables. Queries are timed by the wall clock; the first plan
of a process is reported separately. Phases are measured in separate runs, by clocks around the product's functions.
They are CPU time of the planning thread, so that other work on the machine does not count. The time of a phase inside
another phase counts only for the inner phase.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from datafusion.substrait import Producer

from bench.common import median_seconds, parse_options, report, timed
from bench.setting import announce, open_database, topics
from flightllm.config import EngineConfig
from flightllm.execution import batch_query, plain_query, staged_query
from flightllm.execution import bind as frames
from flightllm.plan import planner
from flightllm.plan.stages import Cutter
from flightllm.plan.substrait import SubstraitReader
from flightllm.session import reading
from flightllm.session.session import Session

_SIX_WAY: Final = """
SELECT m.movie_info, r.review_content, ai_gen('Compare.', film => m.movie_info, other => o.movie_info) AS both
FROM movies m
JOIN movie_reviews r ON r.movie_id = m.movie_id
JOIN movies n ON n.director = m.director
JOIN movie_reviews s ON s.movie_id = n.movie_id
JOIN movies o ON o.genre = m.genre
JOIN movie_reviews t ON t.movie_id = o.movie_id AND t.critic = r.critic
WHERE r.top_critic AND ai_filter('Do these reviews agree?', r.review_content, other => s.review_content)
"""
_IN_SUBQUERY: Final = """
SELECT genre, count(*) FROM movies WHERE movie_id IN
(SELECT movie_id FROM movie_reviews r WHERE ai_filter('Is the review about the plot?', review_content))
GROUP BY genre HAVING count(*) > 3 ORDER BY 2 DESC LIMIT 10
"""
_REST: Final = "the rest"


def queries() -> Mapping[str, str]:
    """Return the texts to plan: a six-way join, a subquery, the four shapes over movies, and a plain query."""
    movies, _ = topics()
    shapes = movies.queries(f"({movies.rows(2_000)})")
    return {"six_way_join": _SIX_WAY, "in_subquery": _IN_SUBQUERY, **shapes, "no_ai": movies.rows(20)}


@dataclass(slots=True)
class Clock:
    """CPU seconds by phase of one thread; a phase does not count while another runs inside it."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _running: list[str] = field(default_factory=lambda: [_REST])
    _since: float = field(default_factory=time.thread_time)

    def switch(self) -> None:
        """Charge the time since the last switch to the phase that ran."""
        now = time.thread_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def around(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time charged to `phase`."""

        def clocked(*arguments: Any, **named: Any) -> Any:
            self.switch()
            self._running.append(phase)
            try:
                return function(*arguments, **named)
            finally:
                self.switch()
                self._running.pop()

        return clocked


@contextmanager
def clocks(clock: Clock) -> Iterator[None]:
    """Put clocks around the phases of planning."""
    places: Sequence[tuple[Any, str, str]] = (
        (reading, "check_sql", "check"),
        (reading, "classify", "check"),
        (reading, "bind", "check"),
        (frames, "extract_calls", "extract"),
        *((module, "scalar_context", "contexts") for module in (frames, plain_query, batch_query, staged_query)),
        *((module, "register_stubs", "contexts") for module in (frames, batch_query)),
        *((module, "frame_of", "resolve (DataFusion)") for module in (frames, plain_query, batch_query)),
        (staged_query, "plan_query", "optimize (DataFusion)"),
        (SubstraitReader, "read", "read"),
        (planner, "hoist_calls", "hoist"),
        (staged_query, "rewrite", "rewrite"),
        (Cutter, "cut", "cut"),
    )
    produce = clock.around("to Substrait", Producer.to_substrait_plan)
    with ExitStack() as stack:
        stack.enter_context(patch.object(planner, "Producer", SimpleNamespace(to_substrait_plan=produce)))
        for owner, name, phase in places:
            stack.enter_context(patch.object(owner, name, clock.around(phase, getattr(owner, name))))
        yield


def plan(opened: Session, sql: str) -> None:
    """Plan a query as `execute` does, and discard the plan before it runs."""
    opened.execute(sql).batches.close()


def phases(opened: Session, sql: str, repeats: int) -> dict[str, float]:
    """Return the median CPU milliseconds of each phase of planning `sql`, and of the whole planning."""
    runs = []
    for _ in range(repeats):
        clock = Clock()
        with clocks(clock):
            clock.switch()
            clock.seconds.clear()
            plan(opened, sql)
            clock.switch()
        runs.append({**clock.seconds, "all phases": sum(clock.seconds.values())})
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: round(1e3 * median(run.get(name, 0.0) for run in runs), 2) for name in names}


def measure(repeats: int) -> dict[str, Any]:
    """Return the milliseconds to plan each query, and those of the six-way join by phase."""
    figures: dict[str, Any] = {}
    with open_database(EngineConfig(kind="fake")) as database:
        opened = database.session()
        figures["first_plan_ms"] = round(1e3 * timed(lambda: plan(opened, _SIX_WAY)), 1)
        gc.freeze()  # as a server does after its start
        for name, sql in queries().items():
            figures[f"{name}_ms"] = round(1e3 * median_seconds(partial(plan, opened, sql), repeats), 1)
        for phase, milliseconds in phases(opened, _SIX_WAY, repeats).items():
            figures[f"six_way_join_cpu_ms, {phase}"] = milliseconds
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    options = parse_options("Plan AI queries without running them.", arguments)
    announce("planning", arguments)
    report("planning", options, measure(options.repeats))


if __name__ == "__main__":
    main()
