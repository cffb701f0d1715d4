"""Run a statement for an agent, and cut its rows to a limit."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from flightllm.client import Client, Progress
from flightllm.common.amounts import counted
from flightllm.mcp.answers import Answer, answer, markdown_table
from flightllm.mcp.values import Cells
from flightllm.mcp.work import Work

MOST_CELL = 50_000
"""The most characters of a cell that an agent can ask for."""
_MOST_CHARACTERS = 60_000
"""The most characters of all cells of an answer: agents refuse, or lose, longer answers."""
_COUNT_SECONDS = 5.0
"""How long the rows after the limit are counted."""
_SETTLE_SECONDS = 2.0
_LOOK_SECONDS = 0.05

RESULT_SCHEMA: Final[Mapping[str, Any]] = {
    "columns": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
            "required": ["name", "type"],
        },
    },
    "rows": {"type": "array", "items": {"type": "array"}},
    "row_count": {"type": "integer", "description": "The number of rows in this answer."},
    "rows_left": {
        "type": ["integer", "null"],
        "description": "The number of rows after those of the answer; null if there are more, and nobody counted them.",
    },
    "cut_cells": {"type": "integer", "description": "The number of cells that are cut."},
    "affected": {"type": ["integer", "null"], "description": "The number of rows that a change affected."},
}


@dataclass(slots=True)
class _Read:
    """The rows of an answer, and the rows after them: how many were seen, and whether all of them were."""

    rows: list[list[Any]]
    left: int = 0
    counted: bool = True
    full: bool = False
    """Whether the answer has no room for further characters."""


def run_statement(work: Work, client: Client, sql: str, most_rows: int, most_cell: int) -> Answer:
    """Run a statement and return at most `most_rows` rows, with cells of at most `most_cell` characters.

    Where rows are left and the statement asks a model, it is stopped, so that nobody pays for them. Otherwise the
    rows are counted.

    Raises:
        FlightLLMError: the statement fails.
    """
    schema, batches = client.query(sql)
    cells = Cells(most_cell)
    with closing(batches):  # type: ignore[type-var] # a generator
        found = _read(work, client, batches, cells, most_rows)
    progress = _settled(client)
    affected = client.affected if not len(schema) else None
    notes = _notes(client, found, cells, progress, most_rows, work.limits.rows)
    structured = {
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "rows": found.rows,
        "row_count": len(found.rows),
        "rows_left": found.left if found.counted else None,
        "cut_cells": cells.cut,
        "affected": affected,
    }
    if len(schema):
        shown = counted(len(found.rows), "row")
        body = f"{markdown_table(schema.names, found.rows)}\n\n{shown}" if found.rows else f"{shown}: {schema.names}"
    else:
        body = "Done." if affected is None else f"Done: {counted(affected, 'row')} affected."
    return answer(body, structured, progress, notes)


def _read(work: Work, client: Client, batches: Any, cells: Cells, most: int) -> _Read:
    found, characters, until = _Read([]), 0, 0.0
    for batch in batches:
        work.check_wanted()
        taken = 0
        if len(found.rows) < most and not found.full:
            for row in cells.rows(batch.slice(0, most - len(found.rows))):
                characters += sum(len(value) if isinstance(value, str) else len(str(value)) for value in row)
                if characters > _MOST_CHARACTERS and found.rows:
                    found.full = True
                    break
                found.rows.append(row)
                taken += 1
        found.left += batch.num_rows - taken
        if not found.left:
            continue
        until = until or time.monotonic() + _COUNT_SECONDS
        if time.monotonic() > until or _asks_model(client):
            found.counted = False
            break
    return found


def _asks_model(client: Client) -> bool:
    progress = client.progress()
    return progress is None or progress.total > 0 or progress.asked > 0


def _settled(client: Client) -> Progress | None:
    """Return the progress of a statement that has ended; its last calls are counted shortly after its end."""
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        progress = client.progress()
        if progress is None or progress.status not in {"planned", "running"} or time.monotonic() > until:
            return progress
        time.sleep(_LOOK_SECONDS)


def _notes(
    client: Client, found: _Read, cells: Cells, progress: Progress | None, most: int, most_rows: int
) -> list[str]:
    notes = []
    if found.left or not found.counted:
        left = f"{'' if found.counted else 'at least '}{counted(found.left, 'row')}"
        why = "" if found.counted else ". The statement was stopped here, so that rows that nobody sees cost nothing"
        more = f"max_rows up to {most_rows:,}, or " if most < most_rows and not found.full else ""
        full = f" The answer has room for {_MOST_CHARACTERS:,} characters: select fewer columns." if found.full else ""
        notes.append(
            f"the rows are cut: {left} left after these {len(found.rows):,}{why}. To get them, use {more}ORDER BY with"
            f" LIMIT and OFFSET {len(found.rows)}, or aggregate in SQL.{full}"
        )
    if cells.cut:
        notes.append(
            f"{counted(cells.cut, 'cell')} cut, which say how much is missing. To get the rest, use max_characters up"
            f" to {MOST_CELL:,}, or substr(column, start, length)"
        )
    if progress is not None and not progress.failed_rows:
        notes += progress.warnings
    if progress is not None and progress.failed_rows:
        reason = client.reason()
        said = f": {reason}" if reason else ""
        notes.append(f"{counted(progress.failed_rows, 'row')} without an answer of the model, shown as NULL{said}")
    return notes
