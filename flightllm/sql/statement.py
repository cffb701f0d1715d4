"""The parts of one SQL statement, and the kinds of statement the server does not run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from flightllm.common.names import TableName
from flightllm.sql.grants import AccessPolicy, Grant
from flightllm.sql.keys import NO_KEYS, TableKeys
from flightllm.sql.output_names import NO_NAMES, OutputNames
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.row_change import RowChange

StatementKind = Literal[
    "query",
    "explain",
    "show",
    "set",
    "reset",
    "create_table",
    "create_table_as",
    "create_view",
    "create_schema",
    "create_external",
    "drop_table",
    "drop_view",
    "drop_schema",
    "insert",
    "delete",
    "update",
    "merge",
    "truncate",
    "create_index",
    "drop_index",
    "refresh_index",
    "create_model",
    "drop_model",
    "create_prompt",
    "drop_prompt",
    "grant",
    "revoke",
    "create_policy",
    "drop_policy",
    "transaction",
    "search_path",
]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, taken apart as far as its kind asks for; `text` has no trailing `;` and no comment around it.

    `query` is the text of the query itself, of the one inside EXPLAIN, CREATE TABLE AS, CREATE VIEW, or of the rows
    INSERT INTO adds; of a simple UPDATE or DELETE it counts the rows that it changes. A query with a `target` is the
    DESCRIBE of a table; a `summarized` one is that of SUMMARIZE.

    `exists_ok` stands for IF NOT EXISTS and IF EXISTS. `key` of a setting has no `flightllm.` before it. `columns` of
    `search_path` are schemas.
    """

    kind: StatementKind
    text: str
    query: str | None = None
    target: TableName | None = None
    columns: tuple[str, ...] = ()
    or_replace: bool = False
    exists_ok: bool = False
    summarized: bool = False
    described: str | None = None
    """The query that DESCRIBE is of."""
    key: str | None = None
    value: str | None = None
    analyze: bool = False
    format: str = "text"
    """Of EXPLAIN: `text` or `json`."""
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Of CREATE VECTOR INDEX, whose name is `key`; of CREATE EXTERNAL TABLE `format` and `location`."""
    model_options: Mapping[str, str | int | float | bool] = field(default_factory=lambda: MappingProxyType({}))
    """Of CREATE MODEL, whose name is `key`; a prompt's text is `value`."""
    grants: tuple[Grant, ...] = ()
    policy: AccessPolicy | None = None
    """A row filter or column mask."""
    change: RowChange | None = None
    """Of UPDATE, DELETE and MERGE, and of INSERT with ON CONFLICT or RETURNING."""
    explained: "Statement | None" = None
    """What EXPLAIN explains, where it is no query."""
    tail: str = ""
    """CREATE TABLE's column list, without its keys."""
    names: OutputNames = NO_NAMES
    """Of the columns of its query that have no alias."""
    keys: TableKeys = NO_KEYS
    """That CREATE TABLE declares; a foreign one may leave out the columns that it refers to."""

    source: ParsedText | None = field(default=None, compare=False, repr=False)
    """The whole text, parsed once, of a statement that stands by itself."""
    sent: ParsedText | None = field(default=None, compare=False, repr=False)
    """The text as the client sent it, where a session read the statement."""

    @property
    def whole(self) -> ParsedText:
        """Return the whole text, with the comments and `;` around the statement."""
        return self.source or ParsedText(self.text)

    def parsed(self, text: str) -> ParsedText:
        """Return a text of the statement's parts; the one that is parsed already where it is the whole statement."""
        return self.source if self.source is not None and self.source.sql == text else ParsedText(text)

    @property
    def is_update(self) -> bool:
        """Tell whether the statement changes something; with RETURNING it returns rows too."""
        return self.kind not in {"query", "explain", "show"}

    @property
    def returning(self) -> str:
        """Return what RETURNING asks for, empty where the statement returns no rows of those that it changes."""
        return "" if self.change is None else self.change.returning

    @property
    def counts_rows(self) -> bool:
        """Tell whether the statement answers how many rows it affected; others answer 0."""
        return self.kind in {
            "create_table_as",
            "insert",
            "delete",
            "update",
            "merge",
            "truncate",
            "create_index",
            "refresh_index",
        }


REFUSED = {
    "copy": "COPY is not supported: the server reads and writes no path a client names; fetch the rows with a query",
    "prepare": "PREPARE is not supported in SQL text: use the client's prepared statements",
    "execute": "EXECUTE is not supported in SQL text: use the client's prepared statements",
    "deallocate": "DEALLOCATE is not supported in SQL text: use the client's prepared statements",
    "alter": "ALTER is not supported: create the table anew with CREATE OR REPLACE TABLE … AS",
    "pivot": "PIVOT without ON is not supported: write PIVOT t ON a IN ('x', 'y') USING sum(c) GROUP BY b",
    "unpivot": "UNPIVOT without ON is not supported: write UNPIVOT t ON a, b INTO NAME name VALUE value",
    "replace": "REPLACE INTO is not supported: write CREATE OR REPLACE TABLE … AS",
}
REFUSED_OBJECTS = {
    "unbounded": "CREATE UNBOUNDED EXTERNAL TABLE is not supported: the server reads no path a client names",
    "function": "CREATE FUNCTION is not supported: the administrator adds AI functions under [functions] folders",
    "database": "there is one catalog, flightllm: write CREATE SCHEMA instead",
    "index": "the only indexes are those over texts and vectors: write CREATE VECTOR INDEX name ON table(column)",
    "materialized": "materialized views are not supported: write CREATE TABLE … AS",
}
