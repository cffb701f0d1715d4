"""The one check: `python tests [--fast | --all] [pytest arguments]` runs lint, format, types and tests; all must pass.

Without an option every test runs that is not marked `slow`. `--fast` runs the folders that need no server and no model.
`--all` runs every test, those of hypothesis with new examples. Where the arguments choose tests by node id or by `-m`,
that choice counts instead.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LINT = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
FAST = ("common", "config", "dialect", "functions", "operators", "optimizer", "plan", "prompt_order", "sql", "udfs")
"""Folders of tests that need no server and no model."""
WORKERS = ("-n", "3")
"""Tests wait for processes and files much of the time: two side by side leave a third of two cores idle."""
ENGINES = "vllm or ray"
"""Each worker would start engines of its own: their tests run after the others, in one process."""
ENGINE_MARK = re.compile(r"\bmark\.(vllm|ray)\b")
"""What the files of those tests contain: the run in one process need not read all the others."""
NO_PLACES = ("--deselect", "--ignore", "--ignore-glob", "-k", "-p", "-o", "-W", "-c")
"""Options of pytest whose value chooses no test to run by its place."""
WRONG_OPTION, NO_TESTS, INTERRUPTED = 4, 5, 130
"""How pytest ends where it cannot read its options or finds no test, and how this command ends after Ctrl-C."""
SETTINGS = {
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",  # threads of several workers wait for each other
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all of vLLM's processes share the first cores
}

MEMORY, ROOM = Path("/dev/shm"), 6 << 30  # noqa: S108 -- only fresh folders are made in it
"""A folder in memory, and the bytes that must be free in it: tests write some gigabytes, most of them small tables."""


def main(arguments: list[str]) -> int:
    """Run every step, so that one run shows all that is wrong; return how many failed."""
    parser = argparse.ArgumentParser(prog="python tests", description=__doc__, allow_abbrev=False)
    layers = parser.add_mutually_exclusive_group()
    layers.add_argument("--fast", action="store_true", help="the folders that need no server and no model")
    layers.add_argument("--all", action="store_true", help="every test, those marked slow too")
    chosen, others = parser.parse_known_args(arguments)
    for place in places(others):
        path = place.partition("::")[0]
        if (path != place or path.startswith("tests/") or path.endswith(".py")) and not Path(ROOT, path).exists():
            parser.error(f"there is no {path} in {ROOT}")
    with TemporaryDirectory(prefix="flightllm-tests-", dir=in_memory()) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL, which runs as a user of its own, has its data below it
        names = Path(folder, "failed")
        names.touch()
        environment = {**os.environ, **SETTINGS, "FLIGHTLLM_FAILED_TESTS": str(names), "TMPDIR": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles the package
        try:
            failed = check(runs(others, fast=chosen.fast, everything=chosen.all), environment)
        except KeyboardInterrupt:
            return INTERRUPTED
        tests = names.read_text(encoding="utf-8").splitlines()
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    if any(step.startswith("ruff") for step in failed):
        print(f"Mend what can be mended: {sys.executable} -m ruff check --fix . && {sys.executable} -m ruff format .")
    if tests:
        print(*(f"  {name}" for name in tests), sep="\n")
        print(f"Run one of them: {shlex.join((sys.executable, '-m', 'pytest', tests[0]))}")
    return len(failed)


def in_memory() -> Path | None:
    """Return a folder in memory if it can hold what the tests write: each change waits for the disk elsewhere.

    None means the usual folder for temporary files. A person who set TMPDIR has that one.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return None
    system = os.statvfs(MEMORY)
    runs_programs = not system.f_flag & os.ST_NOEXEC  # as some tests write them
    return MEMORY if runs_programs and shutil.disk_usage(MEMORY).free >= ROOM else None


def check(tests: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[str]:
    """Run lint, format and these runs of pytest, with types beside them; return what failed."""
    types = started(("mypy",), environment, piped=True)
    try:
        failed = [" ".join(step[:2]) for step in LINT if run(step, environment)]
        codes = set()
        for step in tests:
            codes.add(run(step, environment))
            if WRONG_OPTION in codes:
                break
        print("\n$ python -m mypy", types.communicate()[0].decode(), sep="\n")
    finally:
        types.kill()
    if types.returncode:
        failed.append("mypy")
    if codes == {NO_TESTS}:
        failed.append("pytest, which found no test")
    elif not codes <= {0, NO_TESTS}:
        failed.append("pytest")
    return failed


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


def places(arguments: list[str]) -> list[str]:
    """Return the arguments that name files, folders or tests."""
    before = ["", *arguments]
    return [
        one for one, last in zip(arguments, before, strict=False) if not one.startswith("-") and last not in NO_PLACES
    ]


def runs(arguments: list[str], *, fast: bool, everything: bool) -> list[tuple[str, ...]]:
    """Return the runs of pytest that a layer consists of."""
    if "--pdb" in arguments:  # which cannot reach the terminal from a worker
        arguments = [*arguments, "-n", "0"]
    if any(one.startswith("-m") for one in arguments) or any("::" in one for one in places(arguments)):
        return [("pytest", *arguments)]
    layer = "" if everything else "not slow and "
    if everything:
        arguments = ["--hypothesis-profile=new", *arguments]
    side_by_side = ("pytest", *WORKERS, "--dist", "worksteal", "-m", f"{layer}not ({ENGINES})")
    if fast:
        named = any("/" in one and Path(ROOT, one).exists() for one in places(arguments))
        return [(*side_by_side, *(() if named else (f"tests/{name}" for name in FAST)), *arguments)]
    files = () if places(arguments) else engine_files()
    return [(*side_by_side, *arguments), ("pytest", "-m", f"{layer}({ENGINES})", *arguments, "-n", "0", *files)]


def engine_files() -> list[str]:
    """Return the files of the tests that start engines."""
    found = sorted(Path(ROOT, "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in found if ENGINE_MARK.search(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
