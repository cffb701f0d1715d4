"""Compare the names in `information_schema` as Snowflake stores them, in capitals."""

from typing import TYPE_CHECKING, Any, Final

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_SCHEMA: Final = "information_schema"
_NAMES: Final = frozenset({"table_catalog", "table_schema", "table_name", "column_name", "schema_name", "catalog_name"})


def compare_catalog_names(tree: "exp.Expr") -> None:
    """Rewrite `TABLE_NAME = 'ORDERS'` as `UPPER(TABLE_NAME) = 'ORDERS'`: the server stores small letters.

    Raises:
        UnsupportedError: the text compares `DATA_TYPE`, which has other words here.
    """
    from sqlglot import exp

    compared = (exp.EQ, exp.NEQ, exp.In, exp.Like)
    for found in list(tree.find_all(*compared)):
        texts = [one for one in found.find_all(exp.Literal) if one.is_string]
        for column in (one for one in (found.this, found.args.get("expression")) if isinstance(one, exp.Column)):
            if not texts or not _is_listed(found):
                continue
            name = column.name.lower()
            if any(one.name != one.name.upper() for one in texts):
                continue
            if name == "data_type":
                raise UnsupportedError(
                    "DATA_TYPE has other words here: write DATA_TYPE = 'Utf8' for texts and 'Int64' for whole numbers"
                )
            if name in _NAMES:
                column.replace(exp.Upper(this=column.copy()))


def read_catalogs(tree: "exp.Expr") -> None:
    """Read `INFORMATION_SCHEMA.COLUMNS` of BigQuery, which sqlglot takes for one name, as a table of a schema.

    Raises:
        UnsupportedError: the text names a dataset; the message has the text to write.
    """
    from sqlglot import exp

    for table in list(tree.find_all(exp.Table)):
        schema, _, name = table.name.lower().partition(".")
        if schema != _SCHEMA or not name:
            continue
        if table.db:
            raise UnsupportedError(
                f"{table.db}.{table.name} lists one dataset: write FROM {table.name} WHERE table_schema = '{table.db}'"
            )
        table.set("this", exp.to_identifier(name))
        table.set("db", exp.to_identifier(_SCHEMA))


def _is_listed(found: Any) -> bool:
    """Return whether the query around a comparison reads `information_schema`."""
    from sqlglot import exp

    query = found.find_ancestor(exp.Select)
    tables = [] if query is None else [query.args.get("from_"), *(query.args.get("joins") or [])]
    return any(isinstance(one.this, exp.Table) and one.this.db.lower() == _SCHEMA for one in tables if one is not None)
