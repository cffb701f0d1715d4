"""Measure how the order of columns, the place of a filter and the repetition of rows change the savings.

    python -m bench.ablations [--engine fake] [--model bench|FOLDER] [--rows 400] [--only columns,place,repeats]
        [--orders 4] [--shares 0.05,0.13,0.25,0.5,1] [--times 1,2,5,10] [--json] [--plot FILE]

Three measurements on one table of `bench.paper`, after the figures of Liu et al., "Optimizing LLM Queries in Relational
Workloads", arXiv 2403.05821. Every query begins without cached answers and with an empty prefix cache. The grammars are
compiled and the code is loaded before; see `bench.cold`.

- `columns` (their figure 6): the filter q2 with the columns of the table in random orders. The original order sends
  fields as the query has them. The greedy order must not depend on the table.
- `place` (their figure 7): q2 in a subquery, whose rows are joined with those of a second table. A plain condition on
  that table lets a share of the rows pass. As the query is written, the model's filter comes first and sees all rows:
  this is `rules off`. With `rules on`, our optimizer joins first. A plain condition on the model's own table would show
  nothing of our rules, because DataFusion itself puts such a condition first.
- `repeats` (their figure 8): tables of one size have each row once, twice, five or ten times, in random
  order. Deduplication is off or on; prompts have the original order, then the greedy order.

The engine `fake` takes no time, so its seconds mean nothing, and the script does not print them. Calls and tokens are
exact. The first step with failed rows ends the run with exit code 1. The JSON then has the figures before it, and the
message in `failed`.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.cold import FailedRowsError, Figures, Run, Step, cold_runs
from bench.common import at_least_one, end_unfinished, machine, missing_table_ends
from bench.engines import engine_config
from bench.llm_queries import GREEDY, STEPS, add_engine_arguments, read_model
from bench.paper import Topic, topics
from bench.plot import plot_curves
from bench.samples import first_rows, write
from bench.setting import announce

_ORIGINAL: Final = STEPS[1]
_GREEDY: Final = GREEDY
_WITH: Final = {"original order": _ORIGINAL, "greedy order": _GREEDY}
_SHARES_TABLE: Final = "shares"
Found = dict[str, dict[str, Figures]]


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases to measure.

    `orders` is the number of random orders of the columns beside that of the other queries. `shares` are the shares of
    rows that pass the plain condition, and `times` how often a table has each row.
    """

    orders: int = 4
    shares: Sequence[float] = (0.05, 0.13, 0.25, 0.5, 1.0)
    times: Sequence[int] = (1, 2, 5, 10)


def columns_permuted(run: Run, topic: Topic, cases: Cases) -> Iterator[tuple[str, str, Figures]]:
    """Yield an order of columns, a step, and its figures."""
    random = np.random.default_rng(0)
    orders = {"as in the other queries": list(topic.columns)}
    for number in range(1, cases.orders + 1):
        orders[f"order {number}"] = [topic.columns[place] for place in random.permutation(len(topic.columns))]
    for name, columns in orders.items():
        for step_name, step in _WITH.items():
            yield name, step_name, run(topic.queries_over(columns)["q2"], step)


def filter_places(run: Run, topic: Topic, cases: Cases) -> Iterator[tuple[str, str, Figures]]:
    """Yield a share of rows, whether our optimizer's rules are on, and the figures."""
    for share in cases.shares:
        for rules in ("off", "on"):
            step = Step(_GREEDY.name, prefix_cache=True, settings={**_GREEDY.settings, "rules": rules})
            yield f"{share:.2f}", f"rules {rules}", run(_joined(topic, share), step)


def rows_repeated(run: Run, topic: Topic, cases: Cases) -> Iterator[tuple[str, str, Figures]]:
    """Yield how often the table has each row, a step with deduplication off or on, and its figures."""
    for times in cases.times:
        sql = _over_repeated(topic, times)
        for name, step in _WITH.items():
            for dedup in ("off", "on"):
                yield (
                    f"{times}",
                    f"{name}, deduplication {dedup}",
                    run(sql, Step(name, prefix_cache=True, settings={**step.settings, "dedup": dedup})),
                )


def forms(topic: Topic, cases: Cases) -> dict[str, str]:
    """Return one query of each measurement, by its name. All rows pass the plain condition."""
    return {
        "columns": topic.queries["q2"],
        "place": _joined(topic, 1.0),
        "repeats": _over_repeated(topic, cases.times[0]),
    }


def _joined(topic: Topic, share: float) -> str:
    """Return q2 in a subquery, joined with the table of parts, of which `share` passes."""
    asked = topic.queries["q2"].replace("SELECT", "SELECT t.number,", 1)
    joined = f"SELECT t.* FROM ({asked}) t JOIN {_SHARES_TABLE} s ON s.number = t.number"
    return f"{joined} WHERE s.part < {round(100 * share)}"


def _over_repeated(topic: Topic, times: int) -> str:
    """Return q2 over the table that has each row so many times."""
    return topic.queries["q2"].replace(f"FROM {topic.name} t", f"FROM {_repeated(topic, times)} t")


MEASUREMENTS: Final = {"columns": columns_permuted, "place": filter_places, "repeats": rows_repeated}


def tables(topic: Topic, rows: int, cases: Cases) -> Mapping[str, pa.Table]:
    """Return the topic's table with the number of each row, a table of parts, and tables of repeated rows, by name.

    A part is a number from 0 to 99, drawn for each row. A condition on it lets a share of the rows pass.
    """
    random = np.random.default_rng(1)
    whole = topic.tables(rows)[topic.name]
    numbers = np.arange(whole.num_rows)
    parts = random.permutation(numbers * 100 // max(1, whole.num_rows))
    made = {
        topic.name: whole.append_column("number", pa.array(numbers)),
        _SHARES_TABLE: pa.table({"number": numbers, "part": parts}),
    }
    for times in cases.times:
        distinct = np.arange(max(1, whole.num_rows // times))
        made[_repeated(topic, times)] = whole.take(pa.array(random.permutation(np.repeat(distinct, times))))
    return made


def _repeated(topic: Topic, times: int) -> str:
    return f"{topic.name}_{times}_times"


def measure(given: argparse.Namespace, topic: Topic) -> tuple[dict[str, Found], dict[str, str]]:
    """Return the figures by measurement, case and variant, and the failures.

    The first step with failed rows ends the run. Its message is then the only failure, and the figures are those of the
    steps before it.
    """
    engine = partial(engine_config, given.engine, given.model, given.cache_blocks, given.in_flight, kv_eviction="none")
    cases = Cases(given.orders, given.shares, given.times)
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        made, chosen = tables(topic, given.rows, cases), given.only.split(",")
        files = write(made, Path(folder))
        few = write(first_rows(made, dict.fromkeys(made, 2)), Path(folder, "few"))
        with cold_runs(engine, files, prefix_cache=True) as run:
            run.warm([sql for name, sql in forms(topic, cases).items() if name in chosen], few, STEPS[-1])
            for name in chosen:
                try:
                    for case, variant, figures in MEASUREMENTS[name](run, topic, cases):
                        print(f"{name}, {case}, {variant}: {json.dumps(figures)}", flush=True)
                        found.setdefault(name, {}).setdefault(case, {})[variant] = figures
                except FailedRowsError as error:
                    return found, {f"{name}, {error.step}": f"{name}, {error}"}
    return found, {}


def curves(found: Mapping[str, Found]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return a panel of computed tokens for each measurement over numbers, with a curve for each variant."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name in [name for name in found if name != "columns"]:
        for case, of in found[name].items():
            for variant, one in of.items():
                points = panels.setdefault(f"{name}: computed tokens", {}).setdefault(variant, [])
                points.append((float(case), one["computed_tokens"]))
    return panels


def shown(found: Found, *, seconds: bool) -> str:
    """Return a measurement as a Markdown table: calls and computed tokens of each variant, with `seconds` these too."""
    variants = list(next(iter(found.values())))
    lines = [["case", *(f"{one}: calls, computed{', s' * seconds}" for one in variants)]]
    lines.append(["---"] * len(lines[0]))
    for case, of in found.items():
        times = [f", {one['seconds']:.1f}" * seconds for one in of.values()]
        counts = [f"{one['calls']:,}, {one['computed_tokens']:,}" for one in of.values()]
        lines.append([case, *map(str.__add__, counts, times)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"expected shares above 0 and up to 1, got {text!r}")
    return share


def _numbers(read: Callable[[str], float], text: str) -> tuple[float, ...]:
    """Return the numbers of a list in which commas separate them."""
    return tuple(map(read, text.split(",")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="What the savings depend on.")
    add_engine_arguments(parser)
    parser.add_argument("--rows", type=at_least_one, default=400, help="rows of the table (default %(default)s)")
    parser.add_argument("--topic", default="movies", help="a table of bench.paper (default %(default)s)")
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help="default: %(default)s")
    cases = Cases()
    parser.add_argument("--orders", type=int, default=cases.orders, help="orders of columns (default %(default)s)")
    for name, kind, words in (
        ("shares", _share, "shares that pass"),
        ("times", at_least_one, "how often each row is there"),
    ):
        default = getattr(cases, name)
        told = f"{words} (default {','.join(f'{one:g}' for one in default)})"
        parser.add_argument(f"--{name}", type=partial(_numbers, kind), default=default, help=told)
    parser.add_argument("--quick", action="store_true", help="60 rows on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw place and repeats into this file (PNG or SVG)")
    given = parser.parse_args(arguments)
    if unknown := set(given.only.split(",")) - MEASUREMENTS.keys():
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}; choose from {', '.join(MEASUREMENTS)}")
    with_filter = [name for name, topic in topics().items() if "q2" in topic.instructions]
    if given.topic not in with_filter:
        parser.error(f"--topic: no table with a filter here is {given.topic!r}; choose from {', '.join(with_filter)}")
    if given.quick:
        given.rows, given.engine = 60, "fake"
    uneven = [f"{one}" for one in given.times if given.rows % one]
    if "repeats" in given.only.split(",") and uneven:
        parser.error(
            f"--times: {', '.join(uneven)} does not divide the {given.rows} rows, so tables would differ in size;"
            " choose other --times or --rows"
        )
    names = ("quick", "rows", "engine", "model", "topic", "cache_blocks")
    head = {"bench": "ablations", **{name: getattr(given, name) for name in names}}
    given.model = read_model(parser, given.model)
    announce("ablations", arguments)
    with missing_table_ends(parser):
        found, failed = measure(given, topics()[given.topic])
    for name, of in found.items():
        print(f"\n{name}, {given.rows} rows\n\n{shown(of, seconds=given.engine != 'fake')}")
    if given.plot and not failed:
        plot_curves(curves(found), given.plot, "share of rows, or repetitions")
    if given.json:
        figures = {"measurements": found, **({"failed": failed} if failed else {})}
        print(json.dumps({**head, **figures, "machine": machine()}))
    end_unfinished(failed)


if __name__ == "__main__":
    main()
