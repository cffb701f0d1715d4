"""Is this tree as fast as an earlier commit? Runs the quick benchmarks of the hot paths on both in turn and compares.

    python -m bench.regress --base REV [--only NAME … | --all] [--skip NAME …] [--rounds 5] [--least 0.85] [--json]

The commit is checked out beside the tree, and runs in the same Python. Each tree runs its own benchmarks with the
arguments of its own `bench/comparable.py`. A figure that the commit lacks prints "no base" and the reason.

Each round runs every benchmark once on both trees, one tree directly after the other. So other work that lasts for some
minutes slows one round of each benchmark, and not all rounds of one benchmark. Each round swaps the order of the trees.

A ratio above 1 means that this tree is better. The table shows the median and the best of the rounds. A line for
several figures shows the geometric mean of their ratios. The exit code is 1 if any figure is below `--least` in every
round, or if a benchmark fails in this tree. The hot paths take about 20 minutes on two cores.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.common import machine
from bench.comparable import HOT, SCRIPTS, Script
from bench.setting import announce

_ROOT: Final = Path(__file__).resolve().parent.parent
_MOST_RATIO: Final = 1_000.0
"""A figure that falls to zero, where lower is better, counts as this many times better."""
_SECONDS: Final = 900
_SHORT: Final = 0.85
_READ_TABLE: Final = """
import json
from bench.comparable import SCRIPTS
print(json.dumps({name: [name, *script.quick] for name, script in SCRIPTS.items()}))
"""

Figures = Mapping[str, float]


class BenchmarkError(Exception):
    """A benchmark did not run to its end."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout of the project."""

    name: str
    code: Path

    def quick_forms(self) -> Mapping[str, Sequence[str]]:
        """Return the module and arguments of each benchmark, from the tree's own table if the table lists it."""
        forms = {name: script.formerly or (name, *script.quick) for name, script in SCRIPTS.items()}
        if not (self.code / "bench" / "comparable.py").is_file():
            return forms
        try:
            own: Mapping[str, Sequence[str]] = json.loads(self._python("-c", _READ_TABLE))
        except (BenchmarkError, json.JSONDecodeError) as error:
            print(f"bench/comparable.py of {self.name} cannot be read, so this tree's is used: {error}", flush=True)
            return forms
        return {**forms, **own}

    def compile(self) -> None:
        """Compile the Python files, so that the first round is not slower than the others."""
        with suppress(BenchmarkError):  # a benchmark that imports a broken file reports the file
            self._python("-m", "compileall", "-q", "bench", "flightllm")

    def run(self, form: Sequence[str]) -> Figures:
        """Run a benchmark, given its module and arguments; return its figures.

        Raises:
            BenchmarkError: the benchmark failed, or printed no figures; the message quotes the end of its output.
        """
        given = os.environ.get("FLIGHTLLM_DATA", "")
        script, *arguments = form
        said = self._python("-m", f"bench.{script}", *(one.format(data=given) for one in arguments), "--json")
        last = said.rstrip().rpartition("\n")[2]
        if not last.startswith("{"):
            raise BenchmarkError(f"bench.{script} prints no figures")
        return dict(flat(json.loads(last)))

    def _python(self, *arguments: str) -> str:
        """Run Python in the tree; return what it printed.

        Raises:
            BenchmarkError: the exit code is not 0, or the process did not end in time. The processes that it started
                end too.
        """
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.code,
            env={**os.environ, "PYTHONPATH": str(self.code)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said, complaint = process.communicate(timeout=_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise BenchmarkError(f"the benchmark did not end within {_SECONDS} s") from error
            raise
        if process.returncode:
            lines = (complaint or said).strip().splitlines() or [f"exit code {process.returncode}"]
            raise BenchmarkError(lines[-1].removeprefix(f"{sys.executable}: ")[:200])
        return said


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
    """The figures of one benchmark on both trees, round by round, or the reason why it ended."""

    script: Script
    rounds: list[tuple[Figures, Figures]] = field(default_factory=list)
    """The base's figures and this tree's."""
    no_base: str = ""
    failure: str = ""
    """Why the benchmark failed in this tree."""

    def ratios(self, pattern: str) -> dict[str, list[float]]:
        """Return how many times better this tree is: for each figure of the pattern, in each round.

        Raises:
            BenchmarkError: this tree does not have the figure.
            NoBaseError: the base does not have the figure, or measures another size.
        """
        if not self.rounds:
            raise NoBaseError(self.no_base)
        if not any(fnmatchcase(name, pattern) for name in self.rounds[0][1]):
            raise BenchmarkError(f"no figure is named {pattern!r}")
        names = set.intersection(*({name for name in run if fnmatchcase(name, pattern)} for run in self._runs()))
        if not names:
            raise NoBaseError("no figure of this name")
        base, here = self.rounds[0]
        for size in self.script.sizes:
            if size in base and size in here and base[size] != here[size]:
                raise NoBaseError(f"{size!r} is {base[size]:,.10g} there and {here[size]:,.10g} here")
        names = {name for name in names if all(base[name] > 0 for base, _ in self.rounds)}
        if not names:
            raise NoBaseError("the figure is 0")
        better = _times_higher if self.script.figures[pattern] == "higher" else _times_lower
        return {name: [better(base[name], here[name]) for base, here in self.rounds] for name in sorted(names)}

    def _runs(self) -> Iterator[Figures]:
        return (run for pair in self.rounds for run in pair)


def _times_higher(base: float, here: float) -> float:
    return here / base


def _times_lower(base: float, here: float) -> float:
    return base / max(here, base / _MOST_RATIO)


class NoBaseError(Exception):
    """The base has nothing to compare a figure with."""


def compare(names: Sequence[str], base: Tree, here: Tree, rounds: int) -> dict[str, Runs]:
    """Run benchmarks on both trees in turn, each round all of them; return what they printed."""
    found = {name: Runs(SCRIPTS[name]) for name in names}
    forms, started = base.quick_forms(), time.monotonic()
    for number in range(rounds):
        for name, runs in found.items():
            if not (runs.no_base or runs.failure):
                print(f"round {number + 1}, {name}", end="", flush=True)
                _turn(runs, {base: forms[name], here: (name, *runs.script.quick)}, base_first=number % 2 == 0)
                print(flush=True)
        if not number:
            minutes = (time.monotonic() - started) / 60
            print(f"round 1 took {minutes:.1f} min; all rounds need about {rounds * minutes:.0f} min", flush=True)
    print()
    return found


def _turn(runs: Runs, forms: Mapping[Tree, Sequence[str]], *, base_first: bool) -> None:
    """Run a benchmark once on the base and once on this tree, which are the keys of `forms`; keep what both printed."""
    base, here = forms
    printed: dict[Tree, Figures] = {}
    for tree in (base, here) if base_first else (here, base):
        started = time.monotonic()
        try:
            printed[tree] = tree.run(forms[tree])
            print(f", {tree.name} {time.monotonic() - started:.0f} s", end="", flush=True)
        except BenchmarkError as error:
            print(f", {tree.name} failed", end="", flush=True)
            if tree is here:
                runs.failure = str(error)
            else:
                runs.no_base = str(error)
    if len(printed) == len(forms):
        runs.rounds.append((printed[base], printed[here]))


@dataclass(slots=True)
class Verdict:
    """The ratios of each figure, the reason for each figure without a ratio, and the faults of this tree."""

    ratios: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    no_base: dict[str, dict[str, str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def judge(found: Mapping[str, Runs], least: float) -> Verdict:
    """Print a line for each figure; return the verdict."""
    verdict = Verdict()
    print("how many times better this tree is than the base; above 1, this tree is better")
    print("(this tree ÷ base where higher is better, base ÷ this tree where lower is better)\n")
    print(f"{'benchmark':16}{'figure':40}{'median':>8}{'best':>8}")
    for name, runs in found.items():
        try:
            _judge_one(name, runs, least, verdict)
        except BenchmarkError as error:
            print(f"{name:16}fails in this tree: {error}")
            verdict.wrong.append(f"{name} fails")
    return verdict


def _judge_one(name: str, runs: Runs, least: float, verdict: Verdict) -> None:
    if runs.failure:
        raise BenchmarkError(runs.failure)
    for pattern in runs.script.figures:
        try:
            ratios = runs.ratios(pattern)
        except NoBaseError as error:
            print(f"{name:16}{pattern:40} no base: {error}")
            verdict.no_base.setdefault(name, {})[pattern] = str(error)
            continue
        means = [prod(of_round) ** (1 / len(of_round)) for of_round in zip(*ratios.values(), strict=True)]
        print(f"{name:16}{pattern:40}{median(means):8.2f}{max(means):8.2f}")
        for figure, of_figure in ratios.items():
            if max(of_figure) < least:
                below = f"below {least} in every round"
                print(f"{name:16}{figure:40}{median(of_figure):8.2f}{max(of_figure):8.2f}  {below}")
                verdict.wrong.append(f"{name}: {figure}")
        verdict.ratios.setdefault(name, {})[pattern] = means


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
        command = ["git", "archive", commit]
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)  # noqa: S607 - see above
        if archive.returncode:
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
    started = time.monotonic()
    if data := os.environ.get("FLIGHTLLM_DATA"):
        os.environ["FLIGHTLLM_DATA"] = os.path.abspath(data)  # noqa: PTH100 - the base runs in another folder
    names = [name for name in given.only or (SCRIPTS if given.all else HOT) if name not in given.skip]
    for name in [name for name in names if missing(SCRIPTS[name])]:
        print(f"{name} is left out: {missing(SCRIPTS[name])}", flush=True)
        names.remove(name)
    with checked_out(given.base) as folder:
        base, here = Tree(given.base, folder), Tree("this tree", _ROOT)
        base.compile()
        here.compile()
        found = compare(names, base, here, given.rounds)
    verdict = judge(found, given.least)
    minutes = (time.monotonic() - started) / 60
    told = "; ".join(verdict.wrong)
    said = f"worse than {given.base}: {told}" if told else f"no figure is worse than {given.base}'s"
    if not verdict.ratios:
        said = said if told else f"nothing could be compared with {given.base}"
    rounds = "1 round; one round proves little" if given.rounds == 1 else f"{given.rounds} rounds"
    print(f"\n{said} ({rounds}, {minutes:.1f} min)")
    if given.json:
        whole: dict[str, Any] = {"bench": "regress", "base": given.base, "rounds": given.rounds, "minutes": minutes}
        print(json.dumps({**whole, **asdict(verdict), "machine": machine()}))
    return 1 if verdict.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", required=True, metavar="REV", help="the commit to compare with")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), metavar="NAME", help="run only these benchmarks")
    chosen.add_argument(
        "--all", action="store_true", help=f"run every benchmark (default: the hot paths {', '.join(HOT)})"
    )
    parser.add_argument("--skip", nargs="+", choices=sorted(SCRIPTS), metavar="NAME", default=[], help="not these")
    parser.add_argument(
        "--rounds", type=_rounds, default=5, help="rounds of each benchmark on each tree (default %(default)s)"
    )
    parser.add_argument(
        "--least", type=float, default=_SHORT, help="the lowest best ratio that passes (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return parser


def _rounds(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("write 1 or more rounds")
    return count


if __name__ == "__main__":
    if not shutil.which("git"):
        raise SystemExit("git is not installed")
    sys.exit(main())
