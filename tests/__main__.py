"""The one check: `python tests [--fast | --all] [pytest arguments]` runs lint, format, types and tests; all must pass.

Without an option every test runs that is not marked `slow`. `--fast` runs the folders that need no server, model or
process. `--all` runs every test. Where the arguments choose tests by node id or by `-m`, that choice counts instead.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
STEPS = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
FAST = ("config", "functions", "operators", "order", "plan", "rewrite", "sql", "udfs")
"""Folders of tests that need no server, model or process."""
WORKERS = ("-n", "2")
"""Tests wait for processes and files much of the time, so two run side by side even on one core."""
ENGINES = "vllm or ray"
"""Each worker would start engines of its own: their tests run after the others, in one process."""
NO_TESTS = 5
"""How pytest ends where it finds no test."""
SETTINGS = {
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",  # threads of several workers wait for each other
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all of vLLM's processes share the first cores
}


def main(arguments: list[str]) -> int:
    """Run every step, so that one run shows all that is wrong; return how many failed."""
    parser = argparse.ArgumentParser(prog="python tests", description=__doc__, allow_abbrev=False)
    layers = parser.add_mutually_exclusive_group()
    layers.add_argument("--fast", action="store_true", help="only what needs no server, model or process")
    layers.add_argument("--all", action="store_true", help="every test, those marked slow too")
    chosen, others = parser.parse_known_args(arguments)
    with TemporaryDirectory() as folder:
        names = Path(folder, "failed")
        names.touch()
        environment = {**os.environ, **SETTINGS, "FLIGHTLLM_FAILED_TESTS": str(names)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles the package
        failed, found = [], False
        for step in (*STEPS, *runs(others, fast=chosen.fast, everything=chosen.all)):
            print(f"\n$ python -m {shlex.join(step)}", flush=True)
            ended = subprocess.run([sys.executable, "-m", *step], cwd=ROOT, env=environment, check=False)
            if step[0] == "pytest":
                found |= ended.returncode != NO_TESTS
            if ended.returncode and not (step[0] == "pytest" and ended.returncode == NO_TESTS):
                failed.append(" ".join(part for part in step[:2] if not part.startswith("-")))
        if not found:
            failed.append("pytest found no test")
        tests = names.read_text(encoding="utf-8").splitlines()
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall checks passed")
    if tests:
        print(*(f"  {name}" for name in tests), sep="\n")
        print(f"Run one of them: python -m pytest {shlex.quote(tests[0])}")
    return len(failed)


def runs(arguments: list[str], *, fast: bool, everything: bool) -> list[tuple[str, ...]]:
    """Return the runs of pytest that a layer consists of."""
    if any(argument.startswith("-m") or "::" in argument for argument in arguments):
        return [("pytest", *arguments)]
    if everything:
        return [("pytest", *WORKERS, "--dist", "loadgroup", *arguments)]
    side_by_side = ("pytest", *WORKERS, "--dist", "worksteal")
    quick = (*side_by_side, "-m", f"not slow and not ({ENGINES})")
    if fast:
        named = any(Path(ROOT, argument).exists() for argument in arguments)
        return [(*quick, *(() if named else (f"tests/{name}" for name in FAST)), *arguments)]
    return [(*quick, *arguments), ("pytest", "-m", f"not slow and ({ENGINES})", *arguments)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
