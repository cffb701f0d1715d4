"""Names of tables, which consist of a schema and a name in the only catalog, and their quoting in SQL."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from flightllm.errors import SqlError

CATALOG = "flightllm"
DEFAULT_SCHEMA = "public"
SYSTEM_SCHEMA = "system"
RESERVED = (SYSTEM_SCHEMA, "information_schema")
"""Schemas of the server's own tables."""
TEMPORARY_PREFIX = "pg_temp_"
"""The prefix of the schemas that hold sessions' temporary tables; each session has one schema."""
LAMBDA_PREFIX = "__lambda_"
"""The begin of the names of lambdas' parameters in rewritten texts. No column has such a name."""
STORED_SUFFIX = f" (as stored {secrets.token_hex(8)})"
"""The suffix of the hidden name of a table's stored rows, below the view that users see; users cannot guess it."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_WORDS = frozenset(("from", "group", "lateral", "order", "regexp", "rlike", "select", "table", "tablesample"))
_WORDS |= frozenset(("unnest", "values", "where", "with"))
"""Words that need quotes as names of tables, and some that only confuse people."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's exact schema and name in the only catalog."""

    schema: str
    name: str

    @property
    def display(self) -> str:
        """Return the shortest readable name, for messages."""
        plain = self.schema == DEFAULT_SCHEMA or is_temporary(self.schema)
        return self.name if plain else f"{self.schema}.{self.name}"

    @property
    def written(self) -> str:
        """Return the shortest name that SQL reads, for people and agents to write."""
        plain = self.schema == DEFAULT_SCHEMA or is_temporary(self.schema)
        parts = [self.name] if plain else [self.schema, self.name]
        return ".".join(part if _PLAIN.match(part) and part not in _WORDS else quoted(part) for part in parts)

    @property
    def sql(self) -> str:
        """Return the full name, quoted for SQL."""
        return f"{quoted(CATALOG)}.{quoted(self.schema)}.{quoted(self.name)}"


def is_temporary(schema: str) -> bool:
    """Return whether a schema holds the temporary tables of a session."""
    return schema.startswith(TEMPORARY_PREFIX)


def quoted(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def table_name(parts: Sequence[str]) -> TableName:
    """Return the table that one to three exact name parts refer to.

    Raises:
        SqlError: there are no parts or too many, or the first of three is not this catalog.
    """
    match parts:
        case [name]:
            return TableName(DEFAULT_SCHEMA, name)
        case [schema, name]:
            return TableName(schema, name)
        case [catalog, schema, name] if catalog == CATALOG:
            return TableName(schema, name)
        case []:
            raise SqlError("a table name was expected")
        case _:
            there = ".".join(parts[-2:])
            raise SqlError(f"there is no catalog {parts[0]!r}, only {CATALOG!r}: write SCHEMA.TABLE, as in {there}")


ADD_UNITS, TRUNCATE_UNIT, TIME_BETWEEN = "__add_units", "__truncate_unit", "__time_between"
VALUE_TEXT, TIME_VALUE, IN_UTC = "__value_text", "__time_value", "__in_utc"
FORMAT_OF, JSON_OF, JSON_OBJECT_OF, JSON_LIST_OF = "__format_of", "__json_of", "__json_object_of", "__json_list_of"
JSON_STRING_OF = "__json_string_of"
SAFE_SUM, SAFE_DIFFERENCE, SAFE_PRODUCT = "__safe_sum", "__safe_difference", "__safe_product"
"""Functions that the generator of other dialects writes, and that a pass rewrites by the types of their arguments."""
COLUMNS_OF = "__columns"
"""The function of DuckDB's COLUMNS, which a pass rewrites by the columns of the tables."""
DUCKDB_JSON_OF = "__duckdb_json_of"
"""The function of DuckDB's JSON of a value, which a pass rewrites by the type of the value."""
DUCKDB_JOINED = "duckdb joined"
"""The style of a value that DuckDB joins to a text: a list and a value of an unknown type stay as they are."""
IN_PLACE = "__in_place"
"""The name that a star leaves out if the columns that a join merges keep the places of its tables, as in DuckDB."""
SNOWFLAKE_JOINED, SNOWFLAKE_ELEMENTS = "snowflake joined", "snowflake elements"
"""The styles of a value that Snowflake joins to a text, and of the elements of a list that it joins.

A value whose usual text is right stays as it is.
"""
BIGQUERY_JOINED = "bigquery joined"
"""The style of a value that BigQuery joins to a text: a time of any kind is an error."""
JSON_STYLE = "json"
"""The dialect of `STRING(value)` in BigQuery, which reads the text of a JSON value, and writes that of a time."""
