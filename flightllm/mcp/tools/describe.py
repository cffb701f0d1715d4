"""`describe`: the columns, the size and the first rows of a table."""

from flightllm.mcp.answers import Answer, answer
from flightllm.mcp.tables import describe, find_table
from flightllm.mcp.tools.base import Arguments, Tool, text
from flightllm.mcp.work import Work


def _run(work: Work, arguments: Arguments) -> Answer:
    found = describe(work, find_table(work, arguments["table"]))
    return answer(found.as_markdown(), found.as_json(), notes=found.notes)


DESCRIBE = Tool(
    "describe",
    "Describe a table",
    lambda _: (
        "Show a table's columns with their types, its number of rows, its first rows and its vector indexes. It never"
        " asks a model."
    ),
    lambda _: {"table": text("The table, as list_tables names it.")},
    ("table",),
    {
        **{name: {"type": "string"} for name in ("schema", "name", "sql", "kind")},
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "nullable": {"type": "boolean"},
                    "key": {"type": ["string", "null"]},
                },
                "required": ["name", "type", "nullable", "key"],
            },
        },
        "row_count": {"type": ["integer", "null"]},
        "sample": {"type": ["array", "null"], "items": {"type": "array"}},
        "indexes": {"type": "array", "items": {"type": "string"}},
    },
    _run,
)
