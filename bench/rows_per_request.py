"""Do rows that share a request get the answers of single requests?

    python -m bench.rows_per_request --model FOLDER [--rows 60] [--sizes 1 4 8] [--tasks films products paragraphs]
        [--out FILE.json] [--json]

Labelled rows of `bench.labelled` go to one real model through the engine `local`: `ai_filter` with the task's question,
and `ai_classify` with the task's labels. Each size of `SET flightllm.rows_per_request` asks the same rows. `1` sends
each row by itself.

The figures, for each task, function and size:

- `accuracy`: the share of rows whose answer equals the label
- `agreement`: the share of rows whose answer equals that of a single request, NULL included
- `missing`: rows without an answer
- `requests`: the requests that the model got; rows that a shared request did not answer are asked again
- `tokens_in`, `tokens_out`: the tokens of prompts and answers; a prefix cache served `tokens_cached` of them
- `seconds`: of the query, with an engine that has the model in memory
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import flightllm
from bench.common import at_least_one, machine
from bench.labelled import TASKS, Task, task

CHOSEN: Final = ("films", "products", "paragraphs")
FUNCTIONS: Final = ("filter", "classify")
_COUNTS: Final = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one task, function and size."""

    task: str
    function: str
    size: int
    rows: int
    accuracy: float
    agreement: float
    missing: int
    requests: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Do rows that share a request get the answers of single requests?")
    parser.add_argument("--model", required=True, help="the model's folder")
    parser.add_argument("--rows", type=at_least_one, default=60, help="rows of each task (default %(default)s)")
    parser.add_argument("--sizes", type=at_least_one, nargs="+", default=(1, 4, 8), help="rows in a request")
    parser.add_argument("--tasks", nargs="+", default=CHOSEN, choices=tuple(TASKS))
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--widest", type=at_least_one, default=400, help="characters of a field (default %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write after each figure")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    found: list[Outcome] = []
    sizes = sorted({1, *given.sizes})
    connection = flightllm.connect(engine="local", model=str(given.model), progress=False)
    try:
        _warm(connection)
        for name in given.tasks:
            rows = task(name, given.rows, widest=given.widest)
            connection.register("asked", _table(rows))
            for function in given.functions:
                found += _outcomes(connection, rows, function, sizes)
                print(_lines(found), flush=True)
                if given.out is not None:
                    given.out.write_text(json.dumps(list(map(asdict, found)), indent=1))
    finally:
        connection.close()
    if given.json:
        results = list(map(asdict, found))
        print(
            json.dumps(
                {"bench": "rows_per_request", "model": Path(given.model).name, "results": results, "machine": machine()}
            )
        )


def _table(rows: Task) -> pa.Table:
    columns: dict[str, list[Any]] = {"place": list(range(len(rows.rows)))}
    for place, (name, _) in enumerate(rows.rows[0].fields):
        columns[name] = [row.fields[place][1] for row in rows.rows]
    return pa.table(columns)


def _warm(connection: Any) -> None:
    """Load the model, so that the first figure does not include this time."""
    connection.sql("SELECT ai_gen('Say yes', max_tokens => 1)").arrow()


def _outcomes(connection: Any, rows: Task, function: str, sizes: Sequence[int]) -> list[Outcome]:
    fields = ", ".join(name for name, _ in rows.rows[0].fields)
    labels = ", ".join("'" + label.replace("'", "''") + "'" for label in rows.labels)
    question = rows.question.replace("'", "''")
    asked = f"ai_filter('{question}', {fields})" if function == "filter" else f"ai_classify({fields}, ARRAY[{labels}])"
    right = [row.label == 0 if function == "filter" else rows.labels[row.label] for row in rows.rows]
    alone: list[Any] = []
    found = []
    for size in sizes:
        connection.execute("SET flightllm.cache = 'off'")
        connection.execute(f"SET flightllm.rows_per_request = '{size if size > 1 else 'off'}'")
        started = time.perf_counter()
        table = connection.sql(f"SELECT place, {asked} AS answer FROM asked ORDER BY place").arrow()
        seconds = time.perf_counter() - started
        answers = table["answer"].to_pylist()
        alone = alone or answers
        used = _used(connection)
        found.append(
            Outcome(
                rows.name,
                function,
                size,
                len(answers),
                _share(answers, right),
                _share(answers, alone),
                answers.count(None),
                used["calls"],
                used["prompt_tokens"],
                used["cached_tokens"],
                used["completion_tokens"],
                round(seconds, 2),
            )
        )
    return found


def _used(connection: Any) -> dict[str, Any]:
    """Return the counts of the last query with AI calls."""
    text = f"SELECT {', '.join(_COUNTS)} FROM system.queries WHERE calls > 0 ORDER BY started_at DESC LIMIT 1"
    counts: list[dict[str, Any]] = connection.sql(text).arrow().to_pylist()
    return counts[0]


def _lines(found: Sequence[Outcome]) -> str:
    """Return the figures as a table of text."""
    last = [one for one in found if (one.task, one.function) == (found[-1].task, found[-1].function)]
    heads = list(asdict(found[-1]))
    rows = [heads, *([str(value) for value in asdict(one).values()] for one in last)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _share(left: Sequence[Any], right: Sequence[Any]) -> float:
    same = sum(int(one == other) for one, other in zip(left, right, strict=True))
    return round(same / len(left), 3)


if __name__ == "__main__":
    main()
