"""The tables that a caller can see, and what is in them."""

from dataclasses import dataclass
from typing import Any

from flightllm.client import BOOKKEEPING
from flightllm.common.names import RESERVED, TableName
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError
from flightllm.mcp.answers import markdown_table
from flightllm.mcp.values import Cells
from flightllm.mcp.work import Work
from flightllm.sql.literals import text_literal
from flightllm.sql.names import parse_name

_SAMPLE_ROWS = 3
_SAMPLE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A table or a view in a list."""

    schema: str
    name: str
    kind: str

    @property
    def sql(self) -> str:
        """Return the shortest name that SQL can read."""
        return TableName(self.schema, self.name).written


def list_tables(work: Work, schema: str, contains: str, limit: int, offset: int) -> tuple[list[Listed], int]:
    """Return some of the tables by schema and name, and the number of all that fit.

    Without a `schema`, the system's own tables are left out.

    Raises:
        FlightLLMError: the server does not answer.
    """
    own = ", ".join(map(text_literal, RESERVED))
    chosen = f"table_schema = {text_literal(schema)}" if schema else f"table_schema NOT IN ({own})"
    if contains:
        chosen += f" AND strpos(lower(table_name), lower({text_literal(contains)})) > 0"
    source = f"FROM information_schema.tables WHERE {chosen}"
    [total] = work.rows(f"{BOOKKEEPING}SELECT count(*) AS n {source}")
    rows = work.rows(
        f"{BOOKKEEPING}SELECT table_schema, table_name, table_type {source}"
        f" ORDER BY table_schema, table_name LIMIT {limit} OFFSET {offset}"
    )
    return [_listed(row) for row in rows], int(str(total["n"]))


def _listed(row: Any) -> Listed:
    return Listed(row["table_schema"], row["table_name"], "view" if row["table_type"] == "VIEW" else "table")


def find_table(work: Work, text: str) -> Listed:
    """Return the table that an agent names: by the name in SQL, or by a plain name or `schema.name` in any form.

    Raises:
        InvalidInputError: several tables have the name.
        NotFoundError: the caller sees no such table.
    """
    wanted = [f"table_name = {text_literal(text)}"]
    schema, _, rest = text.partition(".")
    if rest:
        wanted.append(_is(schema, rest))
    try:
        parsed: TableName | None = parse_name(text)
    except FlightLLMError:  # the text can still be a plain name
        parsed = None
    if parsed is not None:
        wanted.append(_is(parsed.schema, parsed.name))
    rows = work.rows(
        f"{BOOKKEEPING}SELECT table_schema, table_name, table_type FROM information_schema.tables"
        f" WHERE {' OR '.join(wanted)} ORDER BY table_schema, table_name LIMIT 50"
    )
    found = [_listed(row) for row in rows]
    if not found:
        raise _no_table(work, text)
    exact = [one for one in found if parsed is not None and (one.schema, one.name) == (parsed.schema, parsed.name)]
    if len(found) > 1 and not exact:
        raise InvalidInputError(f"several tables have the name {text!r}: {', '.join(one.sql for one in found)}")
    return (exact or found)[0]


def _is(schema: str, name: str) -> str:
    return f"(table_schema = {text_literal(schema)} AND table_name = {text_literal(name)})"


def _no_table(work: Work, text: str) -> NotFoundError:
    near, total = list_tables(work, "", text.rpartition(".")[2].strip('"')[:20], 10, 0)
    some = f"; there are {', '.join(one.sql for one in near)}" if total else ""
    return NotFoundError(f"no table {text!r} that you can see{some}: list_tables lists all")


@dataclass(frozen=True, slots=True)
class Description:
    """A table's columns, its number of rows and its first rows; None where these could ask a model or fail."""

    table: Listed
    columns: list[dict[str, Any]]
    rows: int | None
    sample: list[list[Any]] | None
    indexes: list[str]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the description without the notes."""
        return {
            "schema": self.table.schema,
            "name": self.table.name,
            "sql": self.table.sql,
            "kind": self.table.kind,
            "columns": self.columns,
            "row_count": self.rows,
            "sample": self.sample,
            "indexes": self.indexes,
        }

    def as_markdown(self) -> str:
        """Return the description as text."""
        count = "" if self.rows is None else f", {self.rows:,} rows"
        head = f"{self.table.kind} `{self.table.sql}`{count}"
        shown = [[one["name"], one["type"], "yes" if one["nullable"] else "no", one["key"]] for one in self.columns]
        parts = [head, markdown_table(["column", "type", "null", "key"], shown)]
        if self.sample:
            parts.append(f"First rows:\n\n{markdown_table([c['name'] for c in self.columns], self.sample)}")
        if self.indexes:
            parts.append(f"Vector indexes, for the tool search: {', '.join(self.indexes)}")
        return "\n\n".join(parts)


def describe(work: Work, table: Listed) -> Description:
    """Read what a table holds, without model calls.

    Raises:
        FlightLLMError: the caller cannot read the table's columns.
    """
    name = TableName(table.schema, table.name).sql
    columns = [
        {
            "name": row["column_name"],
            "type": row["data_type"],
            "nullable": row["is_nullable"] == "YES",
            "key": row.get("key") or None,
        }
        for row in work.rows(f"{BOOKKEEPING}DESCRIBE {name}")
    ]
    notes: list[str] = []
    count: int | None = None
    sample: list[list[Any]] | None = None
    try:
        [row] = work.rows(f"{BOOKKEEPING}SELECT count(*) AS n FROM {name}")
        count = int(str(row["n"]))
        cells = Cells(_SAMPLE_CHARACTERS)
        _, batches = work.client(calls=0).query(f"{BOOKKEEPING}SELECT * FROM {name} LIMIT {_SAMPLE_ROWS}")
        sample = [row for batch in batches for row in cells.rows(batch)]
    except FlightLLMError as error:
        notes.append(f"no rows are shown: {error}")
    return Description(table, columns, count, sample, _indexes(work, table), notes)


def _indexes(work: Work, table: Listed) -> list[str]:
    return [
        str(row["name"])
        for row in work.rows(f'{BOOKKEEPING}SELECT name, "table" FROM system.vector_indexes ORDER BY name')
        if row["table"] in {table.name, f"{table.schema}.{table.name}", table.sql}
    ]
