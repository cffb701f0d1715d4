"""The parts of one SQL statement, and the kinds of statement that the server does not run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from flightllm.common.cached import cached_property
from flightllm.common.names import TableName
from flightllm.sql.client_parameters import ParameterTable
from flightllm.sql.grants import AccessPolicy, Grant
from flightllm.sql.keys import NO_KEYS, TableKeys
from flightllm.sql.names import NO_NAMES, OutputNames
from flightllm.sql.parameters import parameter_names
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
    "rename_table",
    "rename_view",
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
    "create_function",
    "drop_function",
    "create_filter",
    "refit_filter",
    "drop_filter",
    "grant",
    "revoke",
    "create_policy",
    "drop_policy",
    "attach",
    "detach",
    "refresh_database",
    "transaction",
    "search_path",
    "parameter",
]


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """Where a query about the catalog looks names up, and the id of its session."""

    path: tuple[str, ...]
    session_id: str
    parameters: ParameterTable | None = field(default=None, compare=False)
    """The parameters of the client's connection; None for a client of another protocol."""


@dataclass(frozen=True)
class Statement:
    """One statement with the parts that its kind needs; `text` has no trailing `;` and no comment around it.

    `query` is the text of the query itself, or of the query inside EXPLAIN, CREATE TABLE AS, CREATE VIEW or INSERT
    INTO. For a simple UPDATE or DELETE, `query` counts the rows that the statement changes. A query with a `target` is
    the DESCRIBE of a table. A `summarized` query belongs to SUMMARIZE.

    `exists_ok` is true for IF NOT EXISTS and IF EXISTS. The `key` of a setting has no `flightllm.` before it. The
    `columns` of `search_path` are schemas.
    """

    kind: StatementKind
    text: str
    query: str | None = None
    target: TableName | None = None
    columns: tuple[str, ...] = ()
    dropped: tuple[TableName, ...] = ()
    """All tables or views of DROP TABLE, DROP VIEW and TRUNCATE, each once; the first one is `target`.

    For ALTER … RENAME TO, this is the one table or view that gets the name `renamed`.
    """
    renamed: TableName | None = None
    cascade: bool = False
    """True for TRUNCATE … CASCADE, which also empties the tables that refer to those of the statement."""
    or_replace: bool = False
    exists_ok: bool = False
    summarized: bool = False
    described: str | None = None
    """The query that DESCRIBE describes."""
    key: str | None = None
    value: str | None = None
    analyze: bool = False
    format: str = "text"
    """The format of EXPLAIN: `text` or `json`."""
    savings: bool = True
    """Whether EXPLAIN predicts the query without each rule too."""
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The options of CREATE VECTOR INDEX, whose name is `key`.

    For CREATE EXTERNAL TABLE, the options are `format`, `location` and those in OPTIONS (…).
    """
    model_options: Mapping[str, str | int | float | bool] = field(default_factory=lambda: MappingProxyType({}))
    """The options of CREATE MODEL, whose name is `key`. CREATE PROMPT has its text in `value` instead.

    For CREATE FUNCTION, whose expression is `value` and whose parameters are `columns`, the figures of WITH.
    """
    parameter_types: tuple[str, ...] = ()
    """The types of the parameters of CREATE FUNCTION, as they are written; empty if it has no list of parameters."""
    labelled: str = ""
    """The query of CREATE FILTER whose rows have labels; the rest is as in CREATE FUNCTION."""
    grants: tuple[Grant, ...] = ()
    policy: AccessPolicy | None = None
    """A row filter or column mask."""
    change: RowChange | None = None
    """The change of UPDATE, DELETE and MERGE, and of INSERT with ON CONFLICT or RETURNING."""
    explained: "Statement | None" = None
    """The statement that EXPLAIN explains, if this statement is not a query."""
    tail: str = ""
    """CREATE TABLE's column list, without its keys and with texts for JSON."""
    json_columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The types of CREATE TABLE's columns of JSON, such as jsonb, by the columns' names."""
    names: Callable[[], OutputNames] = field(default=lambda: NO_NAMES, compare=False, repr=False)
    """Reads the names of the query's columns without an alias, once, from the text that the client sent."""
    keys: TableKeys = NO_KEYS
    """The keys that CREATE TABLE declares. A foreign key can leave out the columns that it refers to."""

    catalog: "CatalogPlace | None" = None
    """Set for a query that asks only the catalog of PostgreSQL's clients, `pg_catalog`; it is read as it was sent."""
    source: ParsedText | None = field(default=None, compare=False, repr=False)
    """The whole text, parsed once; None for a statement inside another one."""

    @cached_property
    def whole(self) -> ParsedText:
        """Return the whole text, with the comments and `;` around the statement."""
        return self.source or ParsedText(self.text)

    @cached_property
    def parsed_query(self) -> ParsedText:
        """Return `query`, or the whole statement if it has no query; the parsed source is used again if it fits."""
        return self.whole.replaced(self.query or self.text)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters; see `parameter_names`."""
        return parameter_names(self.whole)

    @property
    def mentions(self) -> frozenset[str]:
        """Return all words of the statement, among them those of each table that it names."""
        return self.whole.mentions

    @property
    def adds_values(self) -> bool:
        """Return whether the statement is an INSERT of VALUES."""
        return self.kind == "insert" and (self.query or "").lower().startswith("values")

    @property
    def is_update(self) -> bool:
        """Return whether the statement changes something; a statement with RETURNING also returns rows."""
        return self.kind not in {"query", "explain", "show"}

    @property
    def returning(self) -> str:
        """Return the expressions of RETURNING, or an empty text if the statement has no RETURNING."""
        return "" if self.change is None else self.change.returning

    @property
    def counts_rows(self) -> bool:
        """Return whether the statement returns the number of rows it affected; other statements return 0."""
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
    "copy": "COPY is not supported: the server does not read or write a client's paths; fetch the rows with a query",
    "prepare": "PREPARE is not supported in SQL text: use the client's prepared statements",
    "execute": "EXECUTE is not supported in SQL text: write the statement itself, or use the client's prepared ones",
    "deallocate": "DEALLOCATE is not supported in SQL text: use the client's prepared statements",
    "pivot": "PIVOT without ON is not supported: write PIVOT t ON a IN ('x', 'y') USING sum(c) GROUP BY b",
    "unpivot": "UNPIVOT without ON is not supported: write UNPIVOT t ON a, b INTO NAME name VALUE value",
    "call": "CALL is not supported, because there are no procedures: write the procedure's statements one by one",
    "declare": "DECLARE is not supported here: write the value in the statement, or SET x = 5 in the dialect snowflake;"
    " in bigquery, DECLARE keeps a value",
    **dict.fromkeys(
        ("put", "list", "ls"),
        "stages are not supported: write CREATE EXTERNAL TABLE name STORED AS PARQUET LOCATION 'folder' for files",
    ),
    "replace": "REPLACE INTO is not supported: write CREATE OR REPLACE TABLE … AS",
}
REFUSED_OBJECTS = {
    "stage": "stages are not supported: write CREATE EXTERNAL TABLE name STORED AS PARQUET LOCATION 'folder' for files",
    "warehouse": "the server has no warehouses: leave CREATE WAREHOUSE out",
    "sequence": "sequences are not supported: write row_number() OVER (ORDER BY a) for numbers",
    "procedure": "procedures are not supported: write the statements one by one, or CREATE FUNCTION for a value",
    "unbounded": "CREATE UNBOUNDED EXTERNAL TABLE is not supported: write CREATE EXTERNAL TABLE",
    "database": "CREATE DATABASE is not supported: the only catalog is flightllm; write CREATE SCHEMA instead",
    "index": "the server has only indexes over texts and vectors: write CREATE VECTOR INDEX name ON table(column)",
    "materialized": "materialized views are not supported: write CREATE TABLE … AS",
}
