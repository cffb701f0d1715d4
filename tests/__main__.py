"""The one check: `python tests [pytest arguments]` runs lint, format, types and tests; all must pass."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDE_BY_SIDE = ("-n", "logical", "--maxprocesses", "4", "--dist", "worksteal")
STEPS = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))


def main(arguments: list[str]) -> int:
    """Run every step, so that one run shows all that is wrong; return how many failed."""
    failed = []
    for step in (*STEPS, ("pytest", *SIDE_BY_SIDE, *arguments)):
        print(f"\n$ python -m {' '.join(step)}", flush=True)  # noqa: T201 -- a command's output
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if subprocess.run([sys.executable, "-m", *step], cwd=ROOT, env=environment, check=False).returncode:
            failed.append(step[0])
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall checks passed")  # noqa: T201 -- see above
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
