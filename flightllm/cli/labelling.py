"""`\\label FILTER QUERY`: ask the person at the shell about the rows that would teach a filter most."""

import json
from collections.abc import Iterator
from typing import Any, Final

import click
import pyarrow as pa

from flightllm.client import Client
from flightllm.common.amounts import counted
from flightllm.errors import InvalidInputError
from flightllm.sql.literals import text_literal

_USAGE: Final = r"write \label FILTER SELECT column FROM table, as in \label spam SELECT t FROM messages"
_COUNT: Final = 20
_KEYS: Final = {"y": "Yes", "n": "No"}
_INSERT: Final = "INSERT INTO system.labels (function, task, fields, answer, label) VALUES ($1, $2, $3, $4, $5)"


def label_rows(client: Client, wish: str) -> int:
    """Ask about rows until the person stops, and keep each answer in `system.labels`; return how many there are.

    `wish` has the name of a filter and a query. An empty line confirms the answer that is shown.

    Raises:
        InvalidInputError: the filter or the query is missing.
        FlightLLMError: the server refuses the query or a label.
    """
    name, _, query = wish.strip().rstrip(";").partition(" ")
    if not query.strip():
        raise InvalidInputError(_USAGE)
    sql = f"SELECT * FROM ai_next_labels({text_literal(name)}, {text_literal(query.strip())}, {_COUNT})"
    kept = 0
    for row in _rows(client, sql):
        for field, value in json.loads(row["fields"]).items():
            click.echo(f"{field}: {value}")
        shown = "" if row["answer"] is None else str(row["answer"])
        hint = "y, n" if row["function"] == "ai_filter" else "the right answer"
        given = click.prompt(f"{hint}, s to skip, q to stop", default=shown or "s").strip()
        if given.lower() == "q":
            break
        if given.lower() == "s":
            continue
        label = _KEYS.get(given.lower(), given) if row["function"] == "ai_filter" else given
        values = [row["function"], row["task"], row["fields"], row["answer"], label]
        columns = [pa.array([value], pa.string()) for value in values]
        bound = pa.RecordBatch.from_arrays(columns, [str(at + 1) for at in range(len(columns))])
        _, done = client.query(_INSERT, bound)
        list(done)
        kept += 1
    click.echo(f"{counted(kept, 'label')} kept in system.labels", err=True)
    return kept


def _rows(client: Client, sql: str) -> Iterator[dict[str, Any]]:
    _, batches = client.query(sql)
    found = [row for batch in batches for row in batch.to_pylist()]
    if not found:
        click.echo("every row of the query has a label", err=True)
    return iter(found)
