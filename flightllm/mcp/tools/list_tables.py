"""`list_tables`: the tables and views that the caller can see."""

from flightllm.mcp.answers import Answer, answer, markdown_table
from flightllm.mcp.tables import list_tables
from flightllm.mcp.tools.base import Arguments, Tool, number, text
from flightllm.mcp.work import Work

_MOST = 1_000
_USUAL = 200


def _run(work: Work, arguments: Arguments) -> Answer:
    limit, offset = arguments.get("limit", _USUAL), arguments.get("offset", 0)
    tables, total = list_tables(work, arguments.get("schema", ""), arguments.get("contains", ""), limit, offset)
    left = max(0, total - offset - len(tables))
    notes = []
    if left:
        notes.append(
            f"{left:,} of {total:,} tables are left: call list_tables with offset={offset + len(tables)}, or with"
            " contains='part of a name'"
        )
    elif not tables:
        notes.append("there are no tables that you can see here")
    rows = [{"schema": one.schema, "name": one.name, "sql": one.sql, "kind": one.kind} for one in tables]
    body = markdown_table(["name in SQL", "kind"], [[one.sql, one.kind] for one in tables]) if tables else ""
    return answer(body, {"tables": rows, "total": total, "left": left}, notes=notes)


LIST_TABLES = Tool(
    "list_tables",
    "List tables",
    lambda _: "List the tables and views that you can query. `sql` is the name to write in SQL.",
    lambda _: {
        "schema": text("List only this schema. The schema system has the tables about the server itself."),
        "contains": text("List only names that contain this text, in any case."),
        "limit": number("The most tables of the answer.", 1, _MOST, _USUAL),
        "offset": number("How many tables to skip, to get those after the first answer.", 0, 10_000_000, 0),
    },
    (),
    {
        "tables": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("schema", "name", "sql", "kind")},
                "required": ["schema", "name", "sql", "kind"],
            },
        },
        "total": {"type": "integer", "description": "The number of all tables that fit."},
        "left": {"type": "integer", "description": "The number of tables after those of the answer."},
    },
    _run,
)
