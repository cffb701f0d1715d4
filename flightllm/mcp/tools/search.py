"""`search`: find the rows of a vector index nearest to a text, by meaning, words or both."""

from typing import Any

from flightllm.client import BOOKKEEPING
from flightllm.errors import InvalidInputError, NotFoundError
from flightllm.mcp.answers import Answer
from flightllm.mcp.limits import Limits
from flightllm.mcp.results import MOST_CELL, RESULT_SCHEMA, run_statement
from flightllm.mcp.tools.base import Arguments, Tool, number, text
from flightllm.mcp.work import Work
from flightllm.sql.literals import text_literal

_USUAL_ROWS = 10
_USUAL_CELL = 1_000


def _run(work: Work, arguments: Arguments) -> Answer:
    index = arguments.get("index") or _only_index(work)
    rows = arguments.get("top_k", min(_USUAL_ROWS, work.limits.rows))
    parts = [text_literal(index), text_literal(arguments["query"]), f"top_k => {rows}"]
    parts.append(f"mode => {text_literal(arguments.get('mode', 'vector'))}")
    if "filter" in arguments:
        parts.append(f"filter => {text_literal(arguments['filter'])}")
    sql = f"SELECT * FROM vector_search({', '.join(parts)})"
    return run_statement(work, work.client(), sql, rows, arguments.get("max_characters", _USUAL_CELL))


def _only_index(work: Work) -> str:
    """Return the name of the only index.

    Raises:
        NotFoundError: there is no index that the caller can see.
        InvalidInputError: there are several indexes.
    """
    rows = work.rows(f'{BOOKKEEPING}SELECT name, "table", "column" FROM system.vector_indexes ORDER BY name')
    if not rows:
        raise NotFoundError(
            "there is no vector index that you can see: use the tool query with LIKE or ai_filter instead, or let the"
            " user run CREATE VECTOR INDEX name ON table(column)"
        )
    if len(rows) > 1:
        some = ", ".join(f"{row['name']} (on {row['table']}.{row['column']})" for row in rows[:50])
        raise InvalidInputError(f"give `index`, one of: {some}")
    return str(rows[0]["name"])


def _properties(limits: Limits) -> dict[str, Any]:
    return {
        "query": text("What to look for, in words."),
        "index": text("The name of a vector index; it can be left out if there is only one."),
        "mode": {
            "type": "string",
            "enum": ["vector", "text", "hybrid"],
            "default": "vector",
            "description": "Search by meaning (vector), by words (text), or by both (hybrid).",
        },
        "top_k": number("The number of rows.", 1, limits.rows, min(_USUAL_ROWS, limits.rows)),
        "filter": text("An SQL condition over the index's columns, such as rating = 'PG'."),
        "max_characters": number("The most characters of a cell.", 1, MOST_CELL, _USUAL_CELL),
    }


SEARCH = Tool(
    "search",
    "Search by meaning",
    lambda _: (
        "Find the rows of a vector index nearest to a text, the best first, with their score. It asks no language"
        " model; an embedding model can get the text. describe names the indexes of a table."
    ),
    _properties,
    ("query",),
    RESULT_SCHEMA,
    _run,
    asks_model=True,
)
