"""Is this tree as fast as an earlier commit? Runs the quick form of every benchmark on both in turn and compares.

    python -m bench.regress --base REV [--only NAME …] [--skip NAME …] [--rounds 3] [--least 0.85] [--json]

The commit is checked out beside the tree and runs in the same Python, with its own benchmarks on its own code. If a
benchmark of the commit does not run, or has no figure to compare, this tree's benchmark runs on the commit's code
instead. Rounds are interleaved, and each round swaps the order of the two trees.

A figure is the geometric mean of the ratios of its medians; above 1 this tree is better. A figure below `--least` is
measured again, in up to three times as many rounds. Other work on the machine can slow down either tree. The exit code
is 1 if a figure stays below.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.common import machine
from bench.comparable import SCRIPTS, Script
from bench.setting import announce

_ROOT: Final = Path(__file__).resolve().parent.parent
_PATIENCE: Final = 3
"""A figure that falls short is measured in up to this many times the given rounds."""
_SECONDS: Final = 900
_SHORT: Final = 0.85

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout of the project.

    `bench` is a folder without the product whose benchmarks run instead of the checkout's own, if it is given.
    """

    name: str
    code: Path
    bench: Path | None = None

    def run(self, script: str, arguments: Sequence[str]) -> Figures:
        """Run a benchmark; return its figures.

        Raises:
            BenchmarkError: the benchmark failed; the message quotes the end of its output.
        """
        folder = self.bench or self.code
        given = os.environ.get("FLIGHTLLM_DATA", "")
        command = [sys.executable, "-m", f"bench.{script}", *(a.format(data=given) for a in arguments), "--json"]
        paths = dict.fromkeys((str(folder), str(self.code)))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise BenchmarkError(f"the benchmark did not end within {_SECONDS} s") from error
        lines = done.stdout.splitlines()
        if done.returncode or not lines or not lines[-1].startswith("{"):
            raise BenchmarkError((done.stderr or done.stdout).strip().rpartition("\n")[2][:200] or "no figures")
        return dict(flat(json.loads(lines[-1])))


class BenchmarkError(Exception):
    """A benchmark did not run to its end."""


def flat(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in a JSON value with their names; the names of nested keys are joined by " / "."""
    match value:
        case bool():
            return
        case int() | float():
            yield path, float(value)
        case dict():
            for key, inner in value.items():
                yield from flat(inner, f"{path} / {key}" if path else str(key))
        case list():
            for index, inner in enumerate(value):
                yield from flat(inner, f"{path} / {index}")


@dataclass(slots=True)
class Runs:
    """The figures of one benchmark on both trees, round by round."""

    base: list[Figures] = field(default_factory=list)
    here: list[Figures] = field(default_factory=list)

    def ratio(self, pattern: str, better: str) -> float | None:
        """Return how many times better this tree is; None if no figure of this name is above zero in all runs."""
        names = [name for name in self.here[0] if fnmatchcase(name, pattern)]
        ratios = []
        for name in names:
            if not all(name in run for run in (*self.base, *self.here)):
                continue
            base, here = (median(run[name] for run in runs) for runs in (self.base, self.here))
            if base > 0 and here > 0:
                ratios.append(here / base if better == "higher" else base / here)
        return prod(ratios) ** (1 / len(ratios)) if ratios else None

    def ratios(self, script: Script) -> dict[str, float]:
        """Return the ratio of each figure that can be compared."""
        found = {pattern: self.ratio(pattern, better) for pattern, better in script.figures.items()}
        return {pattern: ratio for pattern, ratio in found.items() if ratio is not None}


def compare(name: str, base: Tree, here: Tree, rounds: int, least: float) -> dict[str, float]:
    """Run one benchmark on both trees in turn; return the ratios.

    Raises:
        BenchmarkError: the benchmark does not run in this tree, or neither tree's benchmark runs on the other code.
    """
    script, runs = SCRIPTS[name], Runs()
    base = _runnable(name, base, here)
    while len(runs.here) < rounds * _PATIENCE:
        turn = ((base, runs.base), (here, runs.here))
        for tree, found in turn if len(runs.here) % 2 else reversed(turn):
            found.append(tree.run(name, script.quick))
        if len(runs.here) >= rounds and all(ratio >= least for ratio in runs.ratios(script).values()):
            break
    return runs.ratios(script)


def _runnable(name: str, base: Tree, here: Tree) -> Tree:
    """Return the other tree with a benchmark that runs there and has a figure to compare. This warms both trees up.

    Raises:
        BenchmarkError: the benchmark does not run in this tree, or neither tree's benchmark runs on the other code.
    """
    script = SCRIPTS[name]
    wanted = here.run(name, script.quick)
    for tree in (base, Tree(base.name, base.code, _copied_benchmarks(here.code, base.code))):
        try:
            found = tree.run(name, script.quick)
        except BenchmarkError as error:
            if tree is base:
                print(
                    f"  {name}: the benchmark of {tree.name} fails, so this tree's benchmark runs on its code: {error}",
                    flush=True,
                )
            said = error
            continue
        if Runs([found], [wanted]).ratios(script):
            return tree
        said = BenchmarkError("the benchmark has no figure to compare")
    raise BenchmarkError(f"in {base.name}: {said}")


def _copied_benchmarks(code: Path, beside: Path) -> Path:
    """Return a folder with a tree's benchmarks and the test modules that they import, but without its product."""
    folder = beside / ".benchmarks"
    for name in ("bench", "tests"):
        if (code / name).is_dir() and not (folder / name).exists():
            shutil.copytree(code / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check a commit out in a new folder; yield the folder and remove it at the end.

    Raises:
        SystemExit: the commit does not exist.
    """
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],  # noqa: S607 - git of the PATH
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if not commit:
        raise SystemExit(f"{revision!r} is not a commit of this repository: write one, as in --base HEAD~1")
    with tempfile.TemporaryDirectory(prefix="flightllm-base-") as folder:
        archive = subprocess.Popen(["git", "archive", commit], cwd=_ROOT, stdout=subprocess.PIPE)  # noqa: S607 - see above
        subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)  # noqa: S607 - see above
        if archive.wait():
            raise SystemExit(f"git archive {commit} failed")
        yield Path(folder)


def missing(script: Script) -> str:
    """Return the reason why a benchmark cannot run on this machine; an empty text if it can."""
    packages = [package for package in script.needs if find_spec(package) is None]
    if packages:
        return f"needs {', '.join(packages)}"
    data = script.data or any("{data}" in argument for argument in script.quick)
    return "needs the tables in FLIGHTLLM_DATA" if data and "FLIGHTLLM_DATA" not in os.environ else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare with the arguments of the command line; return 1 if a figure is too low or a benchmark does not run."""
    given = _parser().parse_args(arguments)
    announce("regress", arguments)
    results: dict[str, dict[str, float]] = {}
    bad: list[str] = []
    with checked_out(given.base) as folder:
        base, here = Tree(given.base, folder), Tree("this tree", _ROOT)
        for name in given.only or SCRIPTS:
            reason = "left out" if name in given.skip else missing(SCRIPTS[name])
            if reason:
                print(f"{name}: {reason}", flush=True)
                continue
            try:
                results[name] = compare(name, base, here, given.rounds, given.least)
            except BenchmarkError as error:
                print(f"{name}: {error}", flush=True)
                if not (str(error).startswith(f"in {given.base}:")):
                    bad.append(name)
                continue
            for figure, ratio in results[name].items():
                short = ratio < given.least
                bad += [f"{name}: {figure}"] if short else []
                print(f"{name}: {figure:40} {ratio:6.2f}{'  below the least' if short else ''}", flush=True)
    print(f"\nworse than {given.base}: {'; '.join(bad)}" if bad else f"\nno figure is worse than {given.base}'s")
    if given.json:
        whole: dict[str, Any] = {"bench": "regress", "base": given.base, "ratios": results, "machine": machine()}
        print(json.dumps(whole))
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", required=True, metavar="REV", help="the commit to compare with")
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), metavar="NAME", help="run only these benchmarks")
    parser.add_argument("--skip", nargs="+", choices=sorted(SCRIPTS), metavar="NAME", default=[], help="not these")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of each benchmark on each tree (default %(default)s)"
    )
    parser.add_argument(
        "--least", type=float, default=_SHORT, help="the lowest ratio that passes (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return parser


if __name__ == "__main__":
    if not shutil.which("git"):
        raise SystemExit("git is not installed")
    sys.exit(main())
