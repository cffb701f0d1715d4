"""The parts of one SQL statement, and the kinds of statement the server does not run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from flightllm.access.grants import Grant, Policy
from flightllm.sql.names import TableName

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
]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, taken apart as far as its kind asks for; `text` has no trailing `;` and no comment around it.

    `query` is the text of the query itself, of the one inside EXPLAIN, CREATE TABLE AS, CREATE VIEW, or of the rows
    INSERT INTO adds; of UPDATE and DELETE it counts the rows they change. `exists_ok` stands for IF NOT EXISTS and IF
    EXISTS. `key` of a setting has no `flightllm.` before it.
    """

    kind: StatementKind
    text: str
    query: str | None = None
    target: TableName | None = None
    columns: tuple[str, ...] = ()
    or_replace: bool = False
    exists_ok: bool = False
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
    policy: Policy | None = None
    """A row filter or column mask."""
    tail: str = ""
    """CREATE TABLE's column list, as written."""

    @property
    def is_update(self) -> bool:
        """Tell whether the statement returns no rows but changes something."""
        return self.kind not in {"query", "explain", "show"}


REFUSED = {
    "copy": "COPY is not supported: the server reads and writes no path a client names; fetch the rows with a query",
    "prepare": "PREPARE is not supported in SQL text: use the client's prepared statements",
    "execute": "EXECUTE is not supported in SQL text: use the client's prepared statements",
    "deallocate": "DEALLOCATE is not supported in SQL text: use the client's prepared statements",
    "alter": "ALTER is not supported: create the table anew with CREATE OR REPLACE TABLE … AS",
    "merge": "MERGE is not supported: write INSERT, UPDATE or DELETE",
    "replace": "REPLACE INTO is not supported: write CREATE OR REPLACE TABLE … AS",
    "use": "USE is not supported: write SCHEMA.TABLE in the query",
}
REFUSED_OBJECTS = {
    "unbounded": "CREATE UNBOUNDED EXTERNAL TABLE is not supported: the server reads no path a client names",
    "function": "CREATE FUNCTION is not supported: the administrator adds AI functions under [functions] folders",
    "database": "there is one catalog, flightllm: write CREATE SCHEMA instead",
    "index": "the only indexes are those over texts and vectors: write CREATE VECTOR INDEX name ON table(column)",
    "materialized": "materialized views are not supported: write CREATE TABLE … AS",
    "temp": "temporary tables are not supported: write CREATE TABLE",
    "temporary": "temporary tables are not supported: write CREATE TABLE",
}
