"""Put FlightLLM into a copy of SemBench.

    python -m bench.sembench_runner FOLDER

FOLDER is a copy of github SemBench/SemBench. The runner goes to `src/scenario/movie/runner/flightllm_runner`, the SQL
files go to `files/movie/query/flightllm`, and `src/run.py` gets a line that names the runner's class.
"""

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
_CLASSES: Final = re.compile(r"^( +)runner_classes = \{\n", re.MULTILINE)
_LINE: Final = '"flightllm": "FlightLLMRunner",'


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a copy of SemBench")
    given = parser.parse_args(arguments)
    if not (given.folder / "src" / "run.py").is_file():
        parser.error(f"no file {given.folder / 'src' / 'run.py'}; name a copy of github SemBench/SemBench")
    try:
        for path in install(given.folder):
            print(path)
    except ValueError as error:
        parser.error(f"{error}")


def install(folder: Path) -> Sequence[Path]:
    """Put the runner and its SQL into a copy of SemBench; return the files. A second time changes nothing.

    Raises:
        ValueError: `run.py` has no list of classes.
    """
    run = folder / "src" / "run.py"
    text = run.read_text(encoding="utf-8")
    if _LINE not in text:
        named, found = _CLASSES.subn(lambda head: f"{head[0]}{head[1]}    {_LINE}\n", text)
        if found != 1:
            raise ValueError(f"{run} has no list runner_classes; add the line {_LINE} where it names its systems")
        run.write_text(named, encoding="utf-8")
    runner = folder / "src" / "scenario" / "movie" / "runner" / "flightllm_runner"
    queries = folder / "files" / "movie" / "query" / "flightllm"
    wanted = {runner / "flightllm_runner.py": HERE / "flightllm_runner.py"}
    wanted |= {queries / path.name: path for path in sorted((HERE / "query").glob("Q*.sql"))}
    for to, of in wanted.items():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(of, to)
    return [run, *wanted]


if __name__ == "__main__":
    main()
