"""How often do KV caches arrive in time over links of varying bandwidth, with adaptation and without?

    python -m bench.kv_adaptation [--traces 20] [--slo 0.5 1 2] [--tokens 1500 3000 6000 9400]
        [--rates 2000 5000 10000 20000 50000 100000] [--same-rate] [--shapes random steps …] [--model 7b]
        [--measured FILE] [--json] [--quick]

A simulation with the product's own policies. Each trace is combined with each length of prompt; `bench.traces` has the
shapes of traces, of 0.1 to 10 Gbit/s. The store holds the chunks of the prompts in every codec. Sizes and decoding are
read from what `python -m bench.kv_codec --json` printed, by default the recorded file. `--rates` are tokens that the
machine decodes in a second from the default codec; the other codecs follow in the measured proportion, or have the same
rate with `--same-rate`. Prefill is that of an A6000 (`bench.kv_simulation`), or measured with `--model demo`.

The figures are the share of late prompts, the seconds until the whole prompt was available, the bits per number, and
the computed share. 16 bits are exact; computed tokens count as 16 bits. The last table compares the adaptive policy
with the best fixed choice of each shape, which nobody can know before the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.kv_fixed import Fixed
from bench.kv_simulation import LADDER, MEASURED, Model, Outcome, read_models, simulate
from bench.traces import SHAPES, Trace
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, FetchPolicy

POLICIES: Final[Mapping[str, FetchPolicy]] = {
    "adaptive": Adaptive(LADDER),
    "adaptive, engine cannot return": Adaptive(LADDER),
    "adaptive, as in the paper": Adaptive(LADDER, fallback=False, headroom=1.0),
    **{codec: Fixed(LADDER, codec) for codec in (*LADDER.codecs, TEXT)},
}
_CANNOT_RETURN: Final = "adaptive, engine cannot return"
_ROUND_TRIP: Final = 1e-3
Figures = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", type=int, default=20, help="of each shape")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first trace")
    parser.add_argument("--slo", nargs="+", type=float, default=[0.5, 1.0, 2.0], help="seconds")
    parser.add_argument("--tokens", nargs="+", type=int, default=[1_500, 3_000, 6_000, 9_400], help="of prompts")
    rates = [2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0]
    parser.add_argument("--rates", nargs="+", type=float, default=rates, help="decoded tokens/s of the default codec")
    parser.add_argument("--same-rate", action="store_true", help="all codecs decode at the same rate")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--model", choices=("7b", "demo"), default="7b")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="a file of bench.kv_codec")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="few traces, one SLO, two rates")
    given = parser.parse_args(arguments)
    if given.quick:
        given.traces, given.slo, given.rates = 4, [1.0], [2_000.0, 50_000.0]
    measured = read_models(given.measured)[given.model]
    traces = {
        shape: [SHAPES[shape](seed) for seed in range(given.first, given.first + given.traces)]
        for shape in given.shapes
    }
    figures: dict[str, Any] = {"measured rates": dict(measured.decoded)}
    for rate in given.rates:
        model = measured.same(rate) if given.same_rate else measured.at(rate)
        found = {shape: compare(model, some, given.tokens, given.slo) for shape, some in traces.items()}
        for slo in given.slo:
            title = f"{rate:,.0f} tokens/s, SLO {slo:g} s"
            pooled = {
                name: _summary([one for outcomes in found.values() for one in outcomes[slo][name]], slo)
                for name in POLICIES
            }
            print(table(title, pooled))
            late = {shape: against_best(outcomes[slo], slo) for shape, outcomes in found.items()}
            print(markdown(f"{title}, late %", _AGAINST, late), flush=True)
            figures[title] = {"policies": pooled, "shapes": late}
    if given.json:
        report("kv_adaptation", Options(given.json, given.quick, given.traces), figures)


def compare(
    model: Model, traces: Sequence[Trace], tokens: Sequence[int], slos: Sequence[float]
) -> dict[float, dict[str, list[Outcome]]]:
    """Return the outcomes of each policy over the same traces and prompts, by SLO."""
    found: dict[float, dict[str, list[Outcome]]] = {slo: {} for slo in slos}
    for name, policy in POLICIES.items():
        returns = name != _CANNOT_RETURN
        for slo in slos:
            known = found[slos[0]].get(name)
            if known is not None and isinstance(policy, Fixed):
                found[slo][name] = known  # a fixed choice does not depend on the SLO
                continue
            found[slo][name] = [
                simulate(model, count, policy, trace, slo, _ROUND_TRIP, returns=returns)
                for trace in traces
                for count in tokens
            ]
    return found


def against_best(outcomes: Mapping[str, Sequence[Outcome]], slo: float) -> dict[str, Any]:
    """Return the late shares of the adaptive policies, and the fixed choice that was late least often."""
    late = {name: fmean(one.seconds > slo for one in runs) for name, runs in outcomes.items()}
    best = min((name for name, policy in POLICIES.items() if isinstance(policy, Fixed)), key=lambda name: late[name])
    return {
        "adaptive": late["adaptive"],
        "cannot return": late[_CANNOT_RETURN],
        "best fixed": late[best],
        "choice": best,
        "above": late["adaptive"] - late[best],
    }


_AGAINST: Final[Mapping[str, Callable[[Any], str]]] = {
    "adaptive": lambda one: f"{100 * one['adaptive']:.1f}",
    "engine cannot return": lambda one: f"{100 * one['cannot return']:.1f}",
    "best fixed": lambda one: f"{100 * one['best fixed']:.1f}",
    "which": lambda one: str(one["choice"]),
    "adaptive above it": lambda one: f"{100 * one['above']:+.1f}",
}


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
