"""How often do cascades miss the rates that a user asks for, and which share of rows does the dear model answer?

    python -m bench.cascades [--scores FILE.parquet …] [--recall 0.9] [--precision 0.9] [--accuracy A]
                             [--confidence 0.9] [--rows 5000] [--seeds 20] [--only METHOD …] [--plot FILE]
                             [--json] [--quick]

A file has the columns `proxy_pred_true_prob`, the cheap model's probability of yes, and `oracle_pred`, the dear
model's answer: 1 or 0, true or false, yes or no. Without `--scores`, the files are those in the folder `cascades` of
`FLIGHTLLM_DATA`, and simulated proxies follow. Each seed draws a table of `--rows` rows. The peers are those of
`bench.peers.cascades`.

With `--accuracy` the only target is the accuracy. A method misses if a recount finds one of its rates below the target.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.common import Options, at_least_one, markdown, report
from bench.peers.cascades import ACCURACY_PEERS, PEERS
from bench.plot import plot_curves
from flightllm.evaluation.truth import Question
from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.targets import Targets

_OURS: Final = "flightllm"
_HALF: Final = 0.5
_SCORE, _ANSWER = "proxy_pred_true_prob", "oracle_pred"
Draw = Callable[[int, Any], tuple[Any, Any]]
"""Returns scores and answers of as many rows, drawn from a generator."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A method on the tables of one source: the share of runs that miss, the share of rows asked, and mean rates."""

    missed: float
    share: float
    recall: float
    precision: float
    accuracy: float


def from_file(path: Path) -> Draw:
    """Return the tables that are drawn from the scores of a file, with replacement if it has too few rows.

    Raises:
        ValueError: the file is not a Parquet file, has no rows, or lacks a score or an answer.
    """
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"it is not a Parquet file: {str(error).splitlines()[0]}") from error
    if missing := [name for name in (_SCORE, _ANSWER) if name not in table.column_names]:
        raise ValueError(f"it lacks the column {missing[0]}; it has {', '.join(table.column_names) or 'none'}")
    if not len(table):
        raise ValueError("it has no rows")
    scores, answers = _scores(table[_SCORE]), _answers(table[_ANSWER])

    def draw(rows: int, rng: Any) -> tuple[Any, Any]:
        chosen = rng.choice(len(scores), rows, replace=rows > len(scores))
        return scores[chosen], answers[chosen]

    return draw


def _scores(column: Any) -> Any:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)):
        raise ValueError(f"{_SCORE} has the type {column.type}: give numbers")
    scores = column.cast(pa.float64()).to_numpy().astype(np.float64)
    if wrong := int((~np.isfinite(scores)).sum()):
        raise ValueError(f"{_SCORE} is NULL, NaN or infinite in {wrong:,} of {len(scores):,} rows: leave these out")
    return scores


def _answers(column: Any) -> Any:
    question, read = Question("yes/no"), dict[Any, bool]()
    for value in pc.unique(column).to_pylist():
        try:
            answer = question.value(value)
        except ValueError:
            answer = None
        if answer is None:
            told = "NULL" if value is None else repr(str(value)[:40])
            raise ValueError(f"{_ANSWER} is {told} in a row: give 1 and 0, true and false, or yes and no")
        read[value] = answer
    return np.array([read[value] for value in column.to_pylist()], np.int8)


def _calibrated(rows: int, rng: Any) -> tuple[Any, Any]:
    scores = 1 / (1 + np.exp(-(3 * rng.normal(size=rows) - 1)))
    return scores, (rng.random(rows) < scores).astype(np.int8)


def _of_calibrated(change: Callable[[Any], Any]) -> Draw:
    def draw(rows: int, rng: Any) -> tuple[Any, Any]:
        scores, answers = _calibrated(rows, rng)
        return change(scores), answers

    return draw


def _random(rows: int, rng: Any) -> tuple[Any, Any]:
    return rng.random(rows), (rng.random(rows) < 0.3).astype(np.int8)


def _overconfident(scores: Any) -> Any:
    return 1 / (1 + ((1 - scores) / scores) ** 3)


SIMULATED: Final[Mapping[str, Draw]] = {
    "calibrated": _calibrated,
    "over-confident": _of_calibrated(_overconfident),
    "100 values": _of_calibrated(lambda scores: np.round(scores, 2)),
    "inverted": _of_calibrated(lambda scores: 1 - scores),
    "constant": _of_calibrated(lambda scores: np.full_like(scores, _HALF)),
    "random": _random,
}
"""The simulated proxies by name."""


def ours(scores: Any, answers: Any, targets: Targets, seed: int) -> tuple[Any, Any]:
    """Return the rows that our cascade accepts, and those that it asks."""
    count = len(scores)
    cascade = FilterCascade(scores, np.ones(count, np.int64), np.full(count, -1, np.int8), targets, seed)
    asked = np.zeros(count, bool)
    while len(units := cascade.next_wave()):
        cascade.tell(units, answers[units])
        asked[units] = True
    return cascade.verdicts() == 1, asked


def measure(draw: Draw, given: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures of each method over all seeds."""
    targets = (
        Targets(accuracy=given.accuracy, confidence=given.confidence)
        if given.accuracy
        else Targets(given.recall, given.precision, confidence=given.confidence)
    )
    peers = ACCURACY_PEERS if given.accuracy else PEERS
    names = [name for name in (_OURS, *peers) if not given.only or name in given.only]
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for seed in range(given.seeds):
        scores, answers = draw(given.rows, np.random.default_rng([seed, 9]))
        for name in names:
            rng = np.random.default_rng([seed, 1])
            if name == _OURS:
                accepted, asked = ours(scores, answers, targets, seed)
            elif given.accuracy:
                accepted, asked = ACCURACY_PEERS[name](scores, answers, given.accuracy, targets.delta, rng)
            else:
                accepted, asked = PEERS[name](scores, answers, given.recall, given.precision, targets.delta, rng)
            found[name].append(_counted(accepted, asked, answers, targets))
    return {name: Figures(*np.mean(rows, axis=0).tolist()) for name, rows in found.items()}


def _counted(accepted: Any, asked: Any, answers: Any, targets: Targets) -> tuple[float, ...]:
    both = float((accepted & (answers == 1)).sum())
    yes, taken = float((answers == 1).sum()), float(accepted.sum())
    recall, precision = both / yes if yes else 1.0, both / taken if taken else 1.0
    accuracy = float((accepted == (answers == 1)).mean())
    wanted = ((recall, targets.recall), (precision, targets.precision), (accuracy, targets.accuracy))
    missed = any(rate < (target or 0) for rate, target in wanted)
    return float(missed), float(asked.mean()), recall, precision, accuracy


def _shown(source: str, key: str, row: Mapping[str, Figures]) -> str:
    return f"{100 * getattr(row[source], key):.1f}"


def sources(given: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Draw]:
    """Return the tables to draw from by name."""
    files: Sequence[Path] = given.scores
    if not files and (folder := os.environ.get("FLIGHTLLM_DATA")) and not given.quick:
        files = sorted((Path(folder) / "cascades").glob("*.parquet"))
    found: dict[str, Draw] = {}
    for path in files:
        if not path.is_file():
            parser.error(f"there is no file {path}")
        try:
            found[path.stem] = from_file(path)
        except ValueError as error:
            parser.error(f"{path}: {error}")
    return found if given.scores else {**found, **SIMULATED}


def rate(text: str) -> float:
    """Return a rate that an argument of the command line has.

    Raises:
        ArgumentTypeError: it is not a number between 0 and 1.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text!r}")
    return value


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every method on every source, and print a table for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scores", type=Path, nargs="+", default=[], metavar="FILE")
    for name, default in (("recall", 0.9), ("precision", 0.9), ("accuracy", None), ("confidence", 0.9)):
        parser.add_argument(f"--{name}", type=rate, default=default)
    parser.add_argument("--rows", type=at_least_one, default=5000)
    parser.add_argument("--seeds", type=at_least_one, default=20)
    parser.add_argument("--only", nargs="+", default=[], choices=[_OURS, *PEERS])
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    if given.only and given.accuracy and not {_OURS, *ACCURACY_PEERS}.intersection(given.only):
        able = ", ".join((_OURS, *ACCURACY_PEERS))
        parser.error(f"--only: no method of {', '.join(given.only)} promises an accuracy; {able} do")
    if given.quick:
        given.rows, given.seeds = min(given.rows, 1000), min(given.seeds, 2)
    found = {name: measure(draw, given) for name, draw in sources(given, parser).items()}
    methods = list(next(iter(found.values())))
    for key, title in (("missed", "runs that miss a target, %"), ("share", "rows asked, %")):
        heads = {name: partial(_shown, name, key) for name in found}
        print(markdown(title, heads, {m: {name: one[m] for name, one in found.items()} for m in methods}), flush=True)
    if given.plot:
        points = {m: [(100 * one[m].share, 100 * one[m].missed) for one in found.values()] for m in methods}
        plot_curves({"runs that miss a target, %": points}, given.plot, "rows asked, %")
    keys = ("recall", "precision", "accuracy", "confidence", "rows", "seeds")
    figures: dict[str, Any] = {
        **{key: getattr(given, key) for key in keys},
        "sources": {name: {m: asdict(one) for m, one in methods.items()} for name, methods in found.items()},
    }
    if given.json:
        report("cascades", Options(json=True, quick=given.quick, repeats=1), figures)


if __name__ == "__main__":
    main()
