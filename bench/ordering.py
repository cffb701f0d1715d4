"""Order the rows of a table for a prefix cache: hit rates, seconds and peak memory.

    python -m bench.ordering TABLE.parquet [--columns a,b,c] [--list a,b] [--method none|rows|fixed|greedy|auto]
        [--weigh values|prompt] [--blocks N] [--out FILE.parquet] [--json]
    python -m bench.ordering --generate 1000000 --method greedy
    python -m bench.ordering --quick

Hit rates are counted on the text of the prompts, with 4 characters to a token. They do not come from the solver.
`unlimited` is the hit rate of a cache that never evicts, `lru` that of N blocks of 16 tokens. Wall and CPU seconds are
for encoding and ordering. Peak memory is that of the process before the count.

`least_tokens` is the size of the trie of these prompts, in tokens: no cache and no order of the rows computes less. An
unlimited cache computes as much. `any_order_tokens` is a bound over all orders of rows, and of the fields of each row;
`any_order_percent` is the hit rate that no order exceeds. They need lines of fields: `--weigh prompt --bound`.

By default, the text consists only of the values, without separators, so that anyone can recount it from `--out`. That
file has one row per input row in sending order: `row` (its index in the input) and `fields` (columns in prompt order).
With `--weigh prompt` the text is what the product sends, a line `name: value` for each field.

The columns of `--list` are the elements of one list, which can be in any order. `--generate` makes a table of six
columns with the given number of rows, and `--quick` of 20,000 rows. With `--blocks` the solver orders for a cache of
that size, else for an unlimited cache.
"""

import argparse
import resource
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.common import Options, at_least_one, report
from bench.trie import Line, least_of_any_field_order, parts
from flightllm.common.text import shared_start
from flightllm.prompt_order.base import CacheShape, Method, Ordering
from flightllm.prompt_order.ordering import encode, order

CHARACTERS: Final = 4
"""Characters that count as one token."""
BLOCK: Final = 16
QUICK_ROWS: Final = 20_000
_COUNTED_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Sent:
    """The input rows in sending order, equal rows one after another, and the position of each in the ordering."""

    rows: NDArray[np.int64]
    places: NDArray[np.int64]


def solve(
    table: pa.Table, method: Method, cache: CacheShape, *, names: bool, elements: Sequence[str] = ()
) -> tuple[Ordering, Sent]:
    """Order the rows of `table`, whose columns are all fields.

    With `names`, the weight of a value includes the name of its column.

    `elements` are the columns that hold the elements of one list.

    Values of different columns can begin with the same characters by chance. A solver that compares only whole values
    does not see this, and in small tables it matters. So the fixed order is counted there too, and the better order
    returned.
    """
    found = _solve(table, method, cache, names=names, elements=elements)
    if names or method in {"none", "fixed"} or table.nbytes > _COUNTED_BYTES:
        return found
    fixed = _solve(table, "fixed", cache, names=names, elements=elements)
    return max(found, fixed, key=lambda solved: unlimited(prompts(table, *solved, names=names)))


def _solve(
    table: pa.Table, method: Method, cache: CacheShape, *, names: bool, elements: Sequence[str]
) -> tuple[Ordering, Sent]:
    heads, columns = table.schema.names, table.columns
    lists = [tuple(heads.index(name) for name in elements)] if elements else []
    if not names:
        heads, columns = [""] * len(columns), [c.cast(pa.large_string()).fill_null(str(None)) for c in columns]
    encoded, tuples = encode(columns, heads, [1] * len(columns), float(CHARACTERS), lists)
    ordering = order(encoded, method, cache)
    if method == "none":
        place = tuples
    else:
        place = np.empty(len(ordering.rows), dtype=np.int64)
        place[ordering.rows] = np.arange(len(place))
        place = place[tuples]
    rows = np.arange(len(tuples)) if method == "none" else np.argsort(place, kind="stable")
    return ordering, Sent(rows, place[rows])


def field_names(table: pa.Table, ordering: Ordering, sent: Sent) -> pa.Table:
    """Return a table with `row` and `fields` of each prompt."""
    patterns = [[table.schema.names[column] for column in pattern] for pattern in ordering.patterns]
    fields = pa.array(patterns, pa.list_(pa.string())).take(pa.array(ordering.pattern[sent.places]))
    return pa.table({"row": sent.rows, "fields": fields})


def prompts(table: pa.Table, ordering: Ordering, sent: Sent, *, names: bool, elements: Sequence[str] = ()) -> list[str]:
    """Return the text of each prompt's fields. The columns in `elements` share one name."""
    shown = dict.fromkeys(elements, elements[0]) if elements else {}
    columns = [
        [
            (str(value) if not names else "" if value is None else f"{shown.get(name, name)}: {value}\n")
            for value in table[name].to_pylist()
        ]
        for name in table.schema.names
    ]
    pattern = ordering.pattern[sent.places].tolist()
    return [
        "".join([columns[column][row] for column in ordering.patterns[fields]])
        for row, fields in zip(sent.rows.tolist(), pattern, strict=True)
    ]


def unlimited(texts: Sequence[str]) -> int:
    """Return the characters that an unlimited cache serves.

    These are the characters that each text shares with the text before it in sorted order.
    """
    return sum(shared_start(left, right) for left, right in pairwise(sorted(texts)))


def any_field_order(table: pa.Table, *, elements: Sequence[str] = ()) -> int:
    """Return a number of characters that must be computed in any order of rows, and of the fields of each row.

    The prompts have a line for each field. See `least_of_any_field_order`.
    """
    shown = dict.fromkeys(elements, elements[0]) if elements else {}
    found = set()
    for row in table.to_pylist():
        text = [f"{shown.get(name, name)}: {value}\n" for name, value in row.items() if value is not None]
        lines = [tuple(map(ord, one)) for one in text]
        found.add(parts(list(chain.from_iterable(lines)), [Line(one, 0) for one in lines], 0))
    return least_of_any_field_order(one for one in found if one is not None)


def lru(texts: Sequence[str], blocks: int) -> int:
    """Return the characters that an LRU cache of `blocks` blocks serves."""
    size, hits = BLOCK * CHARACTERS, 0
    cached: OrderedDict[int, None] = OrderedDict()
    for text in texts:
        prefix, hit = 0, True
        for start in range(0, len(text) - size + 1, size):
            prefix = hash((prefix, text[start : start + size]))
            hit = hit and prefix in cached
            hits += size * hit
            cached[prefix] = None
            cached.move_to_end(prefix)
            if len(cached) > blocks:
                cached.popitem(last=False)
    return hits


def generate(rows: int) -> pa.Table:
    """Return a table of six columns like a join of reviews.

    Titles, users and brands are skewed; texts seldom repeat.
    """
    random = np.random.default_rng(0)

    def column(name: str, distinct: int, length: int, skew: float | None = None) -> pa.Array:
        values = pa.array([f"{name} {i:07d} " + "x" * (i % length) for i in range(distinct)])
        codes = random.zipf(skew, rows) % distinct if skew else random.integers(0, distinct, rows)
        return values.take(pa.array(codes))

    return pa.table({
        "title": column("title", max(rows // 50, 1), 60, 1.2),
        "body": column("body", max(rows * 9 // 10, 1), 200),
        "category": column("category", 50, 20),
        "user": column("user", max(rows // 10, 1), 12, 1.3),
        "rating": column("rating", 5, 2),
        "brand": column("brand", max(rows // 300, 1), 30, 1.4),
    })  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Order the table that the command line names, and print the figures."""
    options = _parse(arguments)
    table = generate(options.generate) if options.table is None else pq.read_table(options.table)
    if options.columns:
        table = table.select(options.columns.split(","))
    names = options.weigh == "prompt"
    cache = CacheShape(BLOCK, options.blocks) if options.blocks else CacheShape(block_tokens=1)
    started, working = time.perf_counter(), time.process_time()
    elements = options.list.split(",") if options.list else []
    ordering, sent = solve(table, options.method, cache, names=names, elements=elements)
    seconds, busy = time.perf_counter() - started, time.process_time() - working
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.out:
        pq.write_table(field_names(table, ordering, sent), options.out)
    texts = prompts(table, ordering, sent, names=names, elements=elements)
    characters, blocks = max(sum(map(len, texts)), 1), options.blocks or 20_000
    served = unlimited(texts)
    bound = any_field_order(table, elements=elements) if names and options.bound else None
    figures = {
        "rows": table.num_rows,
        "columns": table.num_columns,
        "distinct": len(ordering.rows),
        "method": ordering.method,
        "weigh": options.weigh,
        "field_orders": len(ordering.patterns),
        "unlimited_percent": round(100 * served / characters, 2),
        "lru_percent": round(100 * lru(texts, blocks) / characters, 2),
        "lru_blocks": blocks,
        "prompt_tokens": characters // CHARACTERS,
        "least_tokens": (characters - served) // CHARACTERS,
        "any_order_tokens": None if bound is None else bound // CHARACTERS,
        "any_order_percent": None if bound is None else round(100 * (1 - bound / characters), 2),
        "predicted_percent": round(100 * ordering.hit_tokens / max(ordering.total_tokens, 1), 2),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(busy, 3),
        "peak_mib": round(peak),
    }
    report("ordering", Options(json=options.json, quick=options.quick, repeats=1), figures)


def _parse(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Order the rows of a table for a prefix cache.")
    parser.add_argument("table", nargs="?", type=Path, help="a Parquet file")
    parser.add_argument("--generate", type=at_least_one, metavar="ROWS", help="order a generated table of six columns")
    parser.add_argument("--quick", action="store_true", help=f"the same as --generate {QUICK_ROWS}")
    parser.add_argument("--columns", help="the fields, separated by commas (default: all columns)")
    parser.add_argument("--list", help="columns that are elements of one list, separated by commas")
    parser.add_argument("--method", choices=("none", "rows", "fixed", "greedy", "auto"), default="greedy")
    parser.add_argument(
        "--weigh", choices=("values", "prompt"), default="values", help="only values, or values with names"
    )
    parser.add_argument(
        "--blocks", type=at_least_one, help="cache size in blocks of 16 tokens (default: no limit; 20,000 for lru)"
    )
    parser.add_argument("--bound", action="store_true", help="count the least tokens of any field order")
    parser.add_argument("--out", type=Path, help="write the order found to this Parquet file")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    options = parser.parse_args(arguments)
    if (options.table is not None) + (options.generate is not None) + options.quick != 1:
        parser.error("one table must be given: name a Parquet file, or write --generate ROWS or --quick")
    if options.table is not None and not options.table.is_file():
        parser.error(f"there is no file {options.table}")
    if options.quick:
        options.generate = QUICK_ROWS
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
