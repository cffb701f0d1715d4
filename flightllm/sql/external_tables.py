"""Parser for CREATE EXTERNAL TABLE."""

from collections.abc import Sequence
from types import MappingProxyType

from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

FORMATS = ("parquet", "csv", "json", "arrow")
_USAGE = "write CREATE EXTERNAL TABLE name STORED AS PARQUET | CSV | JSON | ARROW LOCATION '/folder/' or 's3://…'"
_OPTIONS = "write OPTIONS ('delimiter' ';', 'null' 'NA')"


OPTION = "option "
"""The prefix of the keys for the values in OPTIONS (…)."""


def read_external_table(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it is CREATE [OR REPLACE] EXTERNAL TABLE, else None.

    Raises:
        SqlError: a part is missing or unknown.
    """
    cursor = Cursor(tokens, 0)
    creates = cursor.take("create")
    or_replace = cursor.take("or", "replace")
    if not creates or not cursor.take("external"):
        return None
    cursor.need(_USAGE, "table")
    exists_ok = cursor.take("if", "not", "exists")
    target = cursor.table()
    if cursor.symbol("("):
        raise SqlError(f"an external table takes its columns from its files: {_USAGE}")
    cursor.need(_USAGE, "stored", "as")
    format_ = cursor.next()
    kind = "" if format_ is None else format_.text.lower()
    if kind not in FORMATS:
        raise SqlError(f"the file format must be one of {', '.join(FORMATS)}: {_USAGE}")
    cursor.need(_USAGE, "location")
    location = cursor.next()
    if location is None or location.kind is not TokenKind.STRING:
        raise SqlError(f"the location must be a text in single quotes: {_USAGE}")
    found = cursor.options(_OPTIONS) if cursor.take("options") else {}
    given = {OPTION + name: value.text for name, value in found.items()}
    if cursor.next() is not None:
        raise SqlError(f"nothing can follow the location and OPTIONS (…): {_USAGE}")
    options = MappingProxyType({"format": kind, "location": location.text, **given})
    return Statement(
        "create_external", text, target=target, or_replace=or_replace, exists_ok=exists_ok, options=options
    )
