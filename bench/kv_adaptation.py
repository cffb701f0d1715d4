"""How often do KV caches arrive in time over links of varying bandwidth, with adaptation and without?

    python -m bench.kv_adaptation [--traces 20] [--slo 0.5 1 2] [--tokens 1500 3000 6000 9400] [--uniform]
        [--segment 0.5] [--low 0.1] [--high 10] [--json] [--quick]

A simulation with the product's own policies. Each random bandwidth trace is combined with each length of prompt. The
store holds the chunks of the prompts at every level. Prefill rates and sizes are those of a 7B model
(`bench.kv_simulation`). Bandwidths are in Gbit/s and change after each `--segment` seconds. They are drawn
log-uniformly, or uniformly as in CacheGen.

The figures are the share of late prompts, the seconds until the whole prompt was available, the bits per number, and
the computed share. 16 bits are exact; computed tokens count as 16 bits. `live` fetches the bytes of one
prompt over a slow link from a real store.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.kv_simulation import LADDER, MODELS, Outcome, simulate
from bench.network import Network
from bench.traces import Trace, random_trace
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, FetchPolicy
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.fixed import Fixed
from flightllm.kvcache.stream.items import FetchFigures, Loaded, Recompute
from flightllm.kvcache.stream.source import ChunkSource

POLICIES: Final[Mapping[str, FetchPolicy]] = {
    "adaptive": Adaptive(LADDER),
    "adaptive, no transfer given up": Adaptive(LADDER, fallback=False),
    "adaptive, as in the paper": Adaptive(LADDER, fallback=False, headroom=1.0),
    "cachegen-2 (no adaptation)": Fixed(LADDER, "cachegen-2"),
    "cachegen-4 (smallest)": Fixed(LADDER, "cachegen-4"),
    "int8": Fixed(LADDER, "int8"),
    "text": Fixed(LADDER, TEXT),
}
_ROUND_TRIP: Final = 1e-3
Figures = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", type=int, default=20)
    parser.add_argument("--slo", nargs="+", type=float, default=[0.5, 1.0, 2.0], help="seconds")
    parser.add_argument("--tokens", nargs="+", type=int, default=[1_500, 3_000, 6_000, 9_400], help="of prompts")
    parser.add_argument("--uniform", action="store_true", help="draw bandwidths uniformly")
    parser.add_argument("--segment", type=float, default=0.5, help="seconds of one bandwidth (default 0.5)")
    parser.add_argument("--low", type=float, default=0.1, help="Gbit/s (default 0.1)")
    parser.add_argument("--high", type=float, default=10.0, help="Gbit/s (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="few traces, one SLO")
    given = parser.parse_args(arguments)
    if given.quick:
        given.traces, given.slo = 4, [1.0]
    traces = [
        random_trace(seed, 60, given.segment, low=given.low, high=given.high, uniform=given.uniform)
        for seed in range(given.traces)
    ]
    figures: dict[str, Any] = {}
    for slo in given.slo:
        title = f"SLO {slo:g} s"
        figures[title] = found = compare(traces, given.tokens, slo)
        print(table(title, found), flush=True)
    if given.json:
        report("kv_adaptation", Options(given.json, given.quick, given.traces), figures)


def compare(traces: Sequence[Trace], tokens: Sequence[int], slo: float) -> dict[str, Figures]:
    """Return the figures of each policy over the same traces and prompts."""
    found = {}
    for name, policy in POLICIES.items():
        outcomes = [
            simulate(MODELS["7b"], count, policy, trace, slo, _ROUND_TRIP) for trace in traces for count in tokens
        ]
        found[name] = _summary(outcomes, slo)
    return found


def table(title: str, found: Mapping[str, Figures]) -> str:
    """Return a Markdown table."""
    heads: dict[str, Callable[[Figures], str]] = {
        "late %": lambda one: f"{100 * one['late']:.1f}",
        "mean s": lambda one: f"{one['mean']:.2f}",
        "median s": lambda one: f"{one['median']:.2f}",
        "bits": lambda one: f"{one['bits']:.1f}",
        "text %": lambda one: f"{100 * one['text']:.0f}",
        "given up": lambda one: f"{one['given_up']:.2f}",
    }
    return markdown(title, heads, found)


def live(
    chunks: Sequence[Chunk], source: ChunkSource, network: Network, trace: Trace, slo: float
) -> tuple[float, FetchFigures]:
    """Fetch a prompt's chunks through a slow link at the beginning of a trace; return the seconds and the figures.

    The store of `source` is behind the network. Computed chunks are not computed here: their estimated time is added.
    """
    network.follow(trace)
    started, computing = time.monotonic(), 0.0
    with fetch(chunks, source, slo_seconds=slo) as fetching:
        for item in fetching:
            match item:
                case Loaded():
                    for _ in item.layers:
                        pass
                case Recompute():
                    computing = source.prefill(item.start, item.stop)
    return time.monotonic() - started + computing, fetching.figures


def _summary(outcomes: Sequence[Outcome], slo: float) -> Figures:
    seconds = [one.seconds for one in outcomes]
    return {
        "late": fmean(one > slo for one in seconds),
        "mean": fmean(seconds),
        "median": median(seconds),
        "bits": fmean(one.bits for one in outcomes),
        "text": fmean(one.text for one in outcomes),
        "given_up": fmean(one.given_up for one in outcomes),
    }


if __name__ == "__main__":
    main()
