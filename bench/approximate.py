"""How often does the interval of an approximate count miss, and how many answers does it need?

    python -m bench.approximate [--scores FILE.parquet …] [--within 0.02] [--confidence 0.95] [--rows 5000]
                                [--seeds 1000] [--json] [--quick]

The files are those of `bench.cascades`: a cheap model's probability of yes, and the dear model's answer. Each seed
draws a table of `--rows` rows. A run misses if the interval after any wave lacks the share of yes over all rows of its
table. `proxy` samples with the cheap model's scores, and `plain` without them. Both end at the same width.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.cascades import Draw, sources
from bench.common import Options, at_least_one, markdown, report
from flightllm.quality.prediction import predict
from flightllm.quality.sampled_mean import SampledMean

_METHODS: Final = ("plain", "proxy")
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Figures:
    """A method on the tables of one source: the share of runs that miss, and means over the runs."""

    missed: float
    asked: float
    waves: float
    half_width: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run: whether an interval missed, the answers, the waves, and half the width of the last interval."""

    missed: bool
    asked: int
    waves: int
    half_width: float


def run(scores: Any, answers: Any, seed: int, within: float, confidence: float) -> Run:
    """Count the answers yes among all rows by questions about some; `scores` are NaN without a proxy."""
    size = len(answers)
    chances = np.random.default_rng([seed, 0xA9]).random(size)
    mean = SampledMean(np.ones(size, np.int64), np.full(size, np.nan), chances, within=within, confidence=confidence)
    truth, missed, waves, asked = answers.mean(), False, 0, np.empty(0, np.int64)
    while True:
        guess = predict(scores, asked, answers[asked].astype(float), yes_or_no=True)
        units = mean.next_wave(guess.expected, guess.spread)
        if not len(units):
            last = mean.estimate()
            return Run(missed, mean.asked, waves, ((last.high or 0.0) - (last.low or 0.0)) / 2)
        asked, waves = np.concatenate([asked, units]), waves + 1
        mean.tell(answers[units].astype(float))
        told = mean.estimate()
        low, high = told.low or 0.0, 1.0 if told.high is None else told.high
        missed = missed or not low - _ROUNDING <= truth <= high + _ROUNDING


def measure(draw: Draw, given: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures of both methods on the same tables."""
    runs: dict[str, list[Run]] = {method: [] for method in _METHODS}
    for seed in range(given.seeds):
        scores, answers = draw(given.rows, np.random.default_rng(seed))
        for method, own in (("plain", np.full(len(scores), np.nan)), ("proxy", scores)):
            runs[method].append(run(own, answers, seed, given.within, given.confidence))
    return {method: _figures(some) for method, some in runs.items()}


def _figures(runs: Sequence[Run]) -> Figures:
    return Figures(*(float(np.mean([getattr(one, name) for one in runs])) for name in Run.__slots__))


def _shown(source: str, key: str, row: dict[str, Figures]) -> str:
    value = getattr(row[source], key)
    return f"{100 * value:.1f}" if key == "missed" else f"{value:,.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables, and the figures as JSON with `--json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--scores", nargs="*", type=Path, default=[], metavar="FILE", help="files of scores and answers"
    )
    parser.add_argument("--within", type=float, default=0.02, help="half the width of the interval (default 0.02)")
    parser.add_argument("--confidence", type=float, default=0.95, help="default 0.95")
    parser.add_argument("--rows", type=at_least_one, default=5_000, help="rows of each table (default 5000)")
    parser.add_argument("--seeds", type=at_least_one, default=1_000, help="tables of each source (default 1000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller tables, under a minute")
    given = parser.parse_args(arguments)
    for name in ("within", "confidence"):
        if not 0 < getattr(given, name) < 1:
            parser.error(f"--{name}: expected a number between 0 and 1, both excluded, got {getattr(given, name):g}")
    if given.quick:
        given.rows, given.seeds = min(given.rows, 2_000), min(given.seeds, 20)
    found = {name: measure(draw, given) for name, draw in sources(given, parser).items()}
    for key, title in (("missed", "runs with an interval that misses, %"), ("asked", "answers")):
        heads = {name: partial(_shown, name, key) for name in found}
        print(markdown(title, heads, {m: {name: one[m] for name, one in found.items()} for m in _METHODS}), flush=True)
    figures = {key: getattr(given, key) for key in ("within", "confidence", "rows", "seeds")}
    figures["sources"] = {name: {m: asdict(one) for m, one in methods.items()} for name, methods in found.items()}
    if given.json:
        report("approximate", Options(json=True, quick=given.quick, repeats=1), figures)


if __name__ == "__main__":
    main()
