"""The one check: `python tests [--fast | --all] [pytest arguments]` runs lint, format, types and tests; all must pass.

Without an option every test runs that is not marked `slow`. `--fast` runs the folders that need no server and no model.
`--all` runs every test. Where the arguments choose tests by node id or by `-m`, that choice counts instead.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LINT = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
FAST = ("config", "dialect", "functions", "operators", "order", "plan", "rewrite", "sql", "udfs")
"""Folders of tests that need no server and no model."""
WORKERS = ("-n", "2")
"""Tests wait for processes and files much of the time, so two run side by side even on one core."""
ENGINES = "vllm or ray"
"""Each worker would start engines of its own: their tests run after the others, in one process."""
NO_PLACES = ("--deselect", "--ignore", "--ignore-glob", "-k", "-p", "-o", "-W", "-c")
"""Options of pytest whose value chooses no test to run by its place."""
NO_TESTS, INTERRUPTED = 5, 130
"""How pytest ends where it finds no test, and how this command ends after Ctrl-C."""
SETTINGS = {
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",  # threads of several workers wait for each other
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all of vLLM's processes share the first cores
}


def main(arguments: list[str]) -> int:
    """Run every step, so that one run shows all that is wrong; return how many failed."""
    parser = argparse.ArgumentParser(prog="python tests", description=__doc__, allow_abbrev=False)
    layers = parser.add_mutually_exclusive_group()
    layers.add_argument("--fast", action="store_true", help="the folders that need no server and no model")
    layers.add_argument("--all", action="store_true", help="every test, those marked slow too")
    chosen, others = parser.parse_known_args(arguments)
    with TemporaryDirectory() as folder:
        names = Path(folder, "failed")
        names.touch()
        environment = {**os.environ, **SETTINGS, "FLIGHTLLM_FAILED_TESTS": str(names)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles the package
        types = started(("mypy",), environment, piped=True)  # beside the tests
        try:
            failed = [" ".join(step[:2]) for step in LINT if run(step, environment)]
            codes = {run(step, environment) for step in runs(others, fast=chosen.fast, everything=chosen.all)}
            print("\n$ python -m mypy", types.communicate()[0].decode(), sep="\n")
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            types.kill()
        tests = names.read_text(encoding="utf-8").splitlines()
    if types.returncode:
        failed.append("mypy")
    if codes == {NO_TESTS}:
        failed.append("pytest, which found no test")
    elif not codes <= {0, NO_TESTS}:
        failed.append("pytest")
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    if tests:
        print(*(f"  {name}" for name in tests), sep="\n")
        print(f"Run one of them: {shlex.join((sys.executable, '-m', 'pytest', tests[0]))}")
    return len(failed)


def run(step: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a step to its end, and return its exit status."""
    print(f"\n$ python -m {shlex.join(step)}", flush=True)
    process = started(step, environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()  # the terminal interrupts it too, and it tells how far it came
        raise


def started(step: Sequence[str], environment: Mapping[str, str], *, piped: bool = False) -> subprocess.Popen[bytes]:
    """Start a step as `python -m`; where it is piped, one pipe has its output and its errors."""
    output, errors = (subprocess.PIPE, subprocess.STDOUT) if piped else (None, None)
    return subprocess.Popen([sys.executable, "-m", *step], cwd=ROOT, env=environment, stdout=output, stderr=errors)


def runs(arguments: list[str], *, fast: bool, everything: bool) -> list[tuple[str, ...]]:
    """Return the runs of pytest that a layer consists of."""
    places = [one for one, before in zip(arguments, ["", *arguments], strict=False) if before not in NO_PLACES]
    if any(one.startswith("-m") or ("::" in one and not one.startswith("-")) for one in places):
        return [("pytest", *arguments)]
    layer = "" if everything else "not slow and "
    side_by_side = ("pytest", *WORKERS, "--dist", "worksteal", "-m", f"{layer}not ({ENGINES})")
    if fast:
        named = any("/" in one and Path(ROOT, one).exists() for one in places)
        return [(*side_by_side, *(() if named else (f"tests/{name}" for name in FAST)), *arguments)]
    return [(*side_by_side, *arguments), ("pytest", "-m", f"{layer}({ENGINES})", *arguments, "-n", "0")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
