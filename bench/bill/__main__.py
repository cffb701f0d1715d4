"""What do queries cost at hosted models, and does EXPLAIN say so before?

    python -m bench.bill [--only WORDS] [--queries WORDS] [--rows 20] [--small-rows 5] [--jobs 4] [--quick]
        [--json] [--plot FILE]

A local server of each provider bills by the provider's published rules, over the provider's own wire format. Each of 20
queries runs twice in a new database: over some rows while engine and cache are cold, then over other rows. The bill is
that of both runs. There are three other bills of each query:

- of the same requests at a provider without a cache,
- of the layout before the product chose by price,
- of a good layout, which a search finds without the product's rules.

On small tables, the search tries all layouts, and finds the least bill. Before each run, EXPLAIN predicts the price.

Prices come from the package `genai-prices`, and tokens from real tokenizers, see `bench.bill.tokens`.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.bill.best import MOST_REQUESTS
from bench.bill.compare import Files, Found, of_provider
from bench.bill.providers import PROVIDERS
from bench.bill.queries import queries
from bench.bill.report import goals, shown
from bench.bill.tables import SOURCES, make_tables
from bench.bill.tokens import tokenizer
from bench.common import at_least_one, data_table, machine, missing_table_ends
from bench.setting import announce, open_database
from flightllm.config import EngineConfig

_JOBS: Final = 4
_QUICK_ROWS: Final = 10
_QUICK: Final = ("sentiment of a review", "join with the long side last", "long instruction")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="the providers whose title has one of these words, between commas")
    parser.add_argument("--queries", default="", help="the queries whose name has one of these words, between commas")
    parser.add_argument("--rows", type=at_least_one, default=20, help="rows of each table (default: 20)")
    parser.add_argument(
        "--small-rows",
        type=at_least_one,
        default=MOST_REQUESTS,
        help=f"rows of small tables (default: {MOST_REQUESTS})",
    )
    parser.add_argument("--jobs", type=at_least_one, default=_JOBS, help=f"providers at a time (default: {_JOBS})")
    parser.add_argument("--quick", action="store_true", help=f"{len(_QUICK)} queries over {_QUICK_ROWS} rows")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the bills; needs the extra `bench`")
    options = parser.parse_args(arguments)
    announce("bill", arguments)
    rows = _QUICK_ROWS if options.quick else options.rows
    chosen = [one for one in PROVIDERS if _named(one.title, options.only)]
    with tempfile.TemporaryDirectory(prefix="flightllm-bill-") as folder, missing_table_ends(parser):
        asked = [one for one in queries() if _named(one.name, options.queries)]
        asked = [one for one in asked if not options.quick or one.name in _QUICK]
        large, tiny = (_tables(Path(folder) / name, size) for name, size in (("l", rows), ("s", options.small_rows)))
        found: dict[str, Found] = {}
        small: dict[str, Found] = {}
        names = [one.name for one in asked]
        # new interpreters, because this one has threads
        with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
            titles = [one.title for one in chosen]
            jobs = pool.map(of_provider, titles, *(repeat(given) for given in (names, large, tiny)))
            for title, of_title in zip(titles, jobs, strict=True):
                found[title], small[title] = of_title
                print(shown(title, found[title], small[title]), flush=True)
    reached = goals(found, small)
    for name, goal in reached.items():
        print(f"{name}: {goal['reached']} of {goal['cases']}; not {'; '.join(goal['missed']) or 'missed'}")
    if options.plot:
        _plot(found, options.plot)
    if options.json:
        counted = {one.title: tokenizer(one.name)[0] for one in chosen}
        figures = {"providers": found, "small": small, "goals": reached, "tokenizers": counted, "rows": rows}
        print(json.dumps({"bench": "bill", "quick": options.quick, **figures, "machine": machine()}))


def _named(name: str, words: str) -> bool:
    return any(word.strip().lower() in name.lower() for word in words.split(","))


def _tables(folder: Path, rows: int) -> Files:
    folder.mkdir()
    with open_database(EngineConfig("fake"), {name: data_table(name) for name in SOURCES}) as database:
        return make_tables(database.session(), folder, rows)


def _plot(found: Mapping[str, Found], path: Path) -> None:
    """Draw a panel for each provider: each query's bill by layout, as a share of the bill without a cache."""
    from bench.plot import plot_curves

    panels = {
        provider: {
            name: [(number, cell[key] / cell["none"]) for number, cell in enumerate(cells.values(), 1)]
            for name, key in (("before", "before"), ("chosen", "bill"), ("good layout", "possible"))
        }
        for provider, cells in found.items()
    }
    plot_curves(panels, path, "query")


if __name__ == "__main__":
    main()
