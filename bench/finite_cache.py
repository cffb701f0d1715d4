"""How many prompt tokens does an engine with a small prefix cache compute, in our orders and in those of peers?

    FLIGHTLLM_DATA=… python -m bench.finite_cache [--table NAME …] [--parts 0.01 …] [--window 128] [--answer 4]
                                                  [--bound] [--plot] [--json] [--quick]

The tables are those in `ordering` of `FLIGHTLLM_DATA`. Each row becomes one prompt: an instruction, and a line
`name: value` for each field. Four characters count as one token. The cache holds a part of all prompts' tokens, in
blocks of 16. `--window` requests run at once, or fewer if their blocks fill the cache. Each answer has `--answer`
tokens. The engine is simulated by vLLM's rules (`flightllm.engines.prefix`), and of two kinds:

- `at once`: running prompts share a block as soon as one of them has it, as in vLLM
- `after`: a prompt finds the blocks of prompts that have ended, as at a server that stores a prompt at its end

The orders: `none`, `auto` and `greedy` are settings of this product, which know the size of the cache and the kind of
engine. The peers are described in `bench.peers.ggr` and `bench.peers.solo`. `least` is a number of tokens that no order
of rows and fields avoids (`bench.finite_cache_bound`); `--bound` counts it. No order needs to reach this number.

`--quick` runs one generated table.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.common import Options, at_least_one, data_table, markdown, missing_table_ends, report
from bench.finite_cache_bound import least_tokens
from bench.ordering import BLOCK, CHARACTERS, generate
from bench.peers.ggr import ggr
from bench.peers.solo import solo, solo_tokens
from bench.plot import plot_curves
from flightllm.engines.prefix import PrefixSimulator, SimulatedRequest, chained
from flightllm.llm.engine import PrefixCache
from flightllm.prompt_order.base import CacheShape, Draft, Encoded, Method
from flightllm.prompt_order.ordering import encode, order

TABLES: Final = ("beer", "movies_15k", "products", "squad_rag5")
OURS: Final[Sequence[Method]] = ("none", "auto", "greedy")
PEERS: Final[Mapping[str, Callable[[Encoded], Draft]]] = {"ggr": ggr, "solo": solo, "solo_tokens": solo_tokens}
RULES: Final = {
    "ggr": "full-depth greedy group recursion over (field, value), squared lengths, functional dependencies",
    "solo": "one order of fields; the next one gives the fewest distinct combinations; rows sorted",
    "solo_tokens": "as solo, but the next field is the one that saves the most tokens",
}
KINDS: Final = {"at once": True, "after": False}
_HEAD: Final = "You read one record of a table. Say in one word whether the text of the record is positive.\n\n"
_QUICK_ROWS: Final = 1_500


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of the command line."""

    table: Sequence[str]
    parts: Sequence[float]
    window: int
    answer: int
    bound: bool
    plot: bool
    json: bool
    quick: bool


class Prompts:
    """The prompts of a table's distinct rows, in any order of rows and fields."""

    def __init__(self, table: pa.Table) -> None:
        names = table.schema.names
        self.encoded, numbers = encode(table.columns, names, [1] * len(names), float(CHARACTERS))
        first = np.unique(numbers, return_index=True)[1]
        self._lines = [
            ["" if value is None else f"{name}: {value}\n" for value in table[name].take(pa.array(first)).to_pylist()]
            for name in names
        ]
        self.sizes = [_tokens(len(_HEAD) + sum(map(len, row))) for row in zip(*self._lines, strict=True)]
        self.tokens = sum(self.sizes)

    def cache(self, part: float) -> CacheShape:
        """Return a cache that holds this part of the tokens, and at least the largest prompt."""
        blocks = max(int(part * self.tokens), max(self.sizes) + BLOCK) // BLOCK
        return CacheShape(BLOCK, blocks, len(_HEAD) / CHARACTERS)

    def blocks(self, rows: NDArray[np.int64], fields: Sequence[Sequence[int]]) -> list[tuple[list[Any], int]]:
        """Return the identities of each prompt's blocks, and its tokens, in sending order."""
        size = BLOCK * CHARACTERS
        sent = []
        for row, own in zip(rows.tolist(), fields, strict=True):
            text = _HEAD + "".join([self._lines[column][row] for column in own])
            whole = range(0, len(text) - size + 1, size)
            sent.append((chained(text[start : start + size] for start in whole), _tokens(len(text))))
        return sent


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS)


def computed(
    sent: Sequence[tuple[Sequence[Any], int]], cache: CacheShape, given: Given, *, shares_at_once: bool
) -> int:
    """Return the prompt tokens that the engine computes."""
    engine = PrefixSimulator(PrefixCache(BLOCK, cache.blocks, shares_at_once), given.window)
    total, place = 0, 0
    while place < len(sent) or engine.in_flight:
        while place < len(sent) and engine.in_flight < 2 * given.window:
            blocks, tokens = sent[place]
            engine.add(SimulatedRequest(place, blocks, tokens, given.answer))
            place += 1
        engine.step()
        total += engine.computed
    return total


def measure(table: pa.Table, given: Given) -> dict[str, Any]:
    """Return the figures of one table."""
    prompts = Prompts(table)
    found: dict[str, Any] = {
        "rows": len(prompts.sizes),
        "prompt_tokens": prompts.tokens,
        "least": least_tokens(prompts.encoded, len(_HEAD) / CHARACTERS, BLOCK) if given.bound else None,
        "seconds": {},
        "computed": {kind: {} for kind in KINDS},
    }
    peers = {}
    for name, peer in PEERS.items():
        started = time.perf_counter()
        draft = peer(prompts.encoded)
        found["seconds"][name] = round(time.perf_counter() - started, 3)
        peers[name] = prompts.blocks(draft.rows, draft.fields.tolist())
    for part in given.parts:
        cache = prompts.cache(part)
        for kind, shares_at_once in KINDS.items():
            row: dict[str, int] = {}
            for method in OURS:
                started = time.perf_counter()
                ours = order(prompts.encoded, method, cache, 1 if shares_at_once else given.window)
                seconds = round(time.perf_counter() - started, 3)
                found["seconds"][method] = max(seconds, found["seconds"].get(method, 0.0))
                sent = prompts.blocks(ours.rows, [ours.patterns[pattern] for pattern in ours.pattern.tolist()])
                row[method] = computed(sent, cache, given, shares_at_once=shares_at_once)
            for name, sent in peers.items():
                row[name] = computed(sent, cache, given, shares_at_once=shares_at_once)
            found["computed"][kind][f"{part:g}"] = row
    return found


def less_than_peers(row: Mapping[str, int], peers: Sequence[str] = ("ggr", "solo")) -> float:
    """Return how many tokens fewer `greedy` computes than the best of the peers, as a part of the peer's."""
    return 1 - row["greedy"] / min(row[name] for name in peers)


def show(name: str, found: Mapping[str, Any]) -> None:
    """Print the computed tokens of each order, by the size of the cache."""
    seconds, first = found["seconds"], f"{found['rows']:,} prompts, {found['prompt_tokens']:,} tokens"
    for kind, sizes in found["computed"].items():
        rows: dict[str, list[str]] = {
            method: [*(f"{row[method]:,}" for row in sizes.values()), f"{seconds[method]:.2f}"] for method in seconds
        }
        rows["greedy against ggr and solo"] = [*(f"{-100 * less_than_peers(row):+.1f} %" for row in sizes.values()), ""]
        names = [*(f"{100 * float(part):g} %" for part in sizes), "seconds to plan"]
        heads = {head: itemgetter(place) for place, head in enumerate(names)}
        print(markdown(f"{name}, {kind} ({first})", heads, rows))
    if found["least"] is not None:
        print(f"No order of {name} computes fewer than {found['least']:,} tokens.\n", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = _parser()
    given = Given(**vars(parser.parse_args(arguments)))
    if given.quick:
        tables = {"generated": generate(_QUICK_ROWS)}
    else:
        with missing_table_ends(parser):
            tables = {name: pq.read_table(data_table(f"ordering/{name}")) for name in given.table}
    found = {}
    for name, table in tables.items():
        found[name] = measure(table, given)
        show(name, found[name])
    if given.plot:
        plot_curves({name: curves(one) for name, one in found.items()}, _PICTURE, "cache, % of the tokens")
    if given.json:
        told = {"tables": found, "peers": RULES, "window": given.window, "answer_tokens": given.answer}
        report("finite_cache", Options(given.json, given.quick, 1), told)


_PICTURE: Final = Path(__file__).with_suffix(".png")


def curves(found: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return the computed tokens of each order on both kinds of engine, in % of the tokens of all prompts."""
    return {
        f"{method}, {kind}": [
            (100 * float(part), 100 * row[method] / found["prompt_tokens"]) for part, row in sizes.items()
        ]
        for kind, sizes in found["computed"].items()
        for method in ("greedy", "ggr", "solo")
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", nargs="+", choices=TABLES, default=TABLES, help="default: all")
    parser.add_argument("--parts", nargs="+", type=float, default=[0.01, 0.05, 0.2, 1.0], help="of the prompts' tokens")
    parser.add_argument("--window", type=at_least_one, default=128, help="requests that run at once")
    parser.add_argument("--answer", type=at_least_one, default=4, help="tokens of each answer")
    parser.add_argument("--bound", action="store_true", help="count the least tokens of any order (a minute)")
    parser.add_argument("--plot", action="store_true", help=f"write bench/{_PICTURE.name}")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help=f"one generated table of {_QUICK_ROWS:,} rows")
    return parser


if __name__ == "__main__":
    main()
