"""Parser for ALTER TABLE and ALTER VIEW, which give a table or view another name or schema."""

from collections.abc import Sequence

from flightllm.common.names import TableName
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token

_USAGE = "write ALTER TABLE | VIEW [IF EXISTS] name RENAME TO name, or … SET SCHEMA name"
_OTHERS = f"{_USAGE}; for other changes create the table again with CREATE OR REPLACE TABLE … AS"
_COLUMNS = (
    "ALTER … RENAME COLUMN is not supported: create the table again with CREATE OR REPLACE TABLE … AS SELECT a AS b, …"
)


def read_alter(tokens: Sequence[Token], text: str) -> Statement:
    """Read ALTER TABLE or ALTER VIEW; the statement's `renamed` is the full new name.

    Raises:
        SqlError: a name is missing, or the new name has a schema.
        UnsupportedError: the statement changes anything but the name or the schema.
    """
    cursor = Cursor(tokens, 1)
    view = cursor.take("view")
    if not view and not cursor.take("table"):
        raise UnsupportedError(f"only tables and views can be altered: {_OTHERS}")
    exists_ok = cursor.take("if")
    if exists_ok:
        cursor.need("write IF EXISTS", "exists")
    _ = cursor.take("only")  # no table inherits from another one
    target = cursor.table()
    if cursor.take("rename", "to"):
        renamed = TableName(target.schema, _name(cursor))
    elif cursor.take("set", "schema"):
        renamed = TableName(_name(cursor), target.name)
    elif cursor.take("rename"):
        raise UnsupportedError(_COLUMNS)
    else:
        raise UnsupportedError(f"this ALTER is not supported: {_OTHERS}")
    cursor.end(_USAGE)
    return Statement(
        "rename_view" if view else "rename_table",
        text,
        target=target,
        dropped=(target,),
        renamed=renamed,
        exists_ok=exists_ok,
    )


def _name(cursor: Cursor) -> str:
    parts, cursor.at = read_parts(cursor.tokens, cursor.at)
    if len(parts) != 1:
        raise SqlError(f"a name of one part was expected: {_USAGE}")
    return parts[0]
