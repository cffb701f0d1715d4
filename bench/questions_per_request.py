"""Do questions that share a request get the answers of single requests?

    python -m bench.questions_per_request --model FOLDER [--rows 60] [--tasks films products] [--out FILE.json] [--json]

Labelled rows of `bench.labelled` go to one real model through the engine `local`, with three questions about each row:
`ai_filter` with the task's question, `ai_classify` with the task's labels, and `ai_classify` for the tone. The rows are
asked twice: one question after another, and with `SET flightllm.questions_per_request`. The model's prices make input
dear, so that the server chooses to share requests.

The figures, for each task:

- `accuracy`: the share of rows whose answer equals the label, of the filter and of the classification
- `agreement`: the share of rows whose answer equals that of a single request, for each question
- `missing`: answers that are NULL
- `requests`: the requests that the model got; a question that a shared request did not answer is asked again
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
from flightllm.config import Config, EngineConfig

CHOSEN: Final = ("films", "products")
QUESTIONS: Final = ("filter", "classify", "tone")
_TONES: Final = "ARRAY['calm', 'excited', 'angry']"
_COUNTS: Final = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one task, asked in one way."""

    task: str
    together: int
    rows: int
    accuracy: tuple[float, ...]
    agreement: tuple[float, ...]
    missing: int
    requests: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Do questions that share a request get the answers of single ones?")
    parser.add_argument("--model", required=True, help="the model's folder")
    parser.add_argument("--rows", type=at_least_one, default=60, help="rows of each task (default %(default)s)")
    parser.add_argument("--tasks", nargs="+", default=CHOSEN, choices=tuple(TASKS))
    parser.add_argument("--widest", type=at_least_one, default=400, help="characters of a field (default %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write after each figure")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    found: list[Outcome] = []
    engine = EngineConfig("local", str(given.model), price_input=1.0, price_output=0.0)
    connection = flightllm.connect(config=Config(engine=engine), progress=False)
    try:
        connection.sql("SELECT ai_gen('Say yes', max_tokens => 1)").arrow()  # loads the model
        for name in given.tasks:
            rows = task(name, given.rows, widest=given.widest)
            connection.register("asked", _table(rows))
            found += _outcomes(connection, rows)
            print(_lines(found), flush=True)
            if given.out is not None:
                given.out.write_text(json.dumps(list(map(asdict, found)), indent=1))
    finally:
        connection.close()
    if given.json:
        results = list(map(asdict, found))
        model = Path(given.model).name
        print(json.dumps({"bench": "questions_per_request", "model": model, "results": results, "machine": machine()}))


def _table(rows: Task) -> pa.Table:
    columns: dict[str, list[Any]] = {"place": list(range(len(rows.rows)))}
    for place, (name, _) in enumerate(rows.rows[0].fields):
        columns[name] = [row.fields[place][1] for row in rows.rows]
    return pa.table(columns)


def _outcomes(connection: Any, rows: Task) -> list[Outcome]:
    fields = ", ".join(name for name, _ in rows.rows[0].fields)
    labels = ", ".join("'" + label.replace("'", "''") + "'" for label in rows.labels)
    question = rows.question.replace("'", "''")
    asked = (
        f"ai_filter('{question}', {fields}) AS filter, ai_classify({fields}, ARRAY[{labels}]) AS classify,"
        f" ai_classify({fields}, {_TONES}, instructions => 'Judge the tone.') AS tone"
    )
    right: list[list[Any]] = [
        [row.label == 0 for row in rows.rows],
        [rows.labels[row.label] for row in rows.rows],
    ]
    alone: list[list[Any]] = []
    found = []
    for together in (1, len(QUESTIONS)):
        connection.execute("SET flightllm.cache = 'off'")
        connection.execute(f"SET flightllm.questions_per_request = '{together if together > 1 else 'off'}'")
        started = time.perf_counter()
        table = connection.sql(f"SELECT place, {asked} FROM asked ORDER BY place").arrow()
        seconds = time.perf_counter() - started
        answers = [table[name].to_pylist() for name in QUESTIONS]
        alone = alone or answers
        used = _used(connection)
        found.append(
            Outcome(
                rows.name,
                together,
                len(answers[0]),
                tuple(map(_share, answers, right)),
                tuple(map(_share, answers, alone)),
                sum(own.count(None) for own in answers),
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
    """Return the figures of the last task as a table of text."""
    last = [one for one in found if one.task == found[-1].task]
    heads = list(asdict(found[-1]))
    rows = [heads, *([str(value) for value in asdict(one).values()] for one in last)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _share(left: Sequence[Any], right: Sequence[Any]) -> float:
    same = sum(int(one == other) for one, other in zip(left, right, strict=True))
    return round(same / len(left), 3)


if __name__ == "__main__":
    main()
