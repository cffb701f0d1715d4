"""Rewrite names of types that DataFusion lacks: sqlglot tells what they are in the dialect that they come from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.column_lists import column_ranges, is_json_column
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind

_DIALECTS = ("postgres", "tsql", "mysql", "snowflake", "oracle", "bigquery", "duckdb")
_KNOWN = frozenset(
    [
        *("char", "character", "varchar", "text", "string", "bytea", "boolean", "bool", "date", "interval"),
        *("tinyint", "smallint", "int", "integer", "bigint", "int2", "int4", "int8", "uint8", "unsigned"),
        *("real", "float", "float4", "float8", "double", "decimal", "numeric", "array", "struct", "map"),
        "timestamptz",
    ]
)
"""Types that DataFusion reads, whatever follows them."""
_TEXTS = "NVARCHAR NCHAR TEXT TINYTEXT MEDIUMTEXT LONGTEXT NAME XML JSON JSONB UUID BPCHAR VARCHAR CHAR"
_BYTES = "BLOB TINYBLOB MEDIUMBLOB LONGBLOB VARBINARY BINARY IMAGE ROWVERSION"
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_TEXTS.split(), "VARCHAR"),
    **dict.fromkeys(_BYTES.split(), "BYTEA"),
    "MONEY": "DECIMAL(19, 4)",
    "SMALLMONEY": "DECIMAL(10, 4)",
    "INT128": "DECIMAL(38, 0)",
    "MEDIUMINT": "INT",
    "BIGINT": "BIGINT",
    "INT": "INT",
    "SMALLINT": "SMALLINT",
    "TINYINT": "TINYINT",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "BOOLEAN": "BOOLEAN",
    "SERIAL": "INT",
    "BIGSERIAL": "BIGINT",
    "SMALLSERIAL": "SMALLINT",
    "SMALLDATETIME": "TIMESTAMP(0)",
}
"""The DataFusion type for each of sqlglot's type names, without its parameters."""
_TIMES: Mapping[str, tuple[str, str]] = {
    "TIMESTAMP": ("TIMESTAMP", ""),
    "TIMESTAMPNTZ": ("TIMESTAMP", ""),
    "TIMESTAMPTZ": ("TIMESTAMPTZ", ""),
    "TIMESTAMPLTZ": ("TIMESTAMPTZ", ""),
    "DATETIME": ("TIMESTAMP", "6"),
    "DATETIME2": ("TIMESTAMP", "6"),
}
"""The DataFusion type for each time type, and its digits by default.

Microseconds are the default for SQL Server and MySQL, whose times begin in the year 1.
"""
_MOST = {"DATETIME": 6, "DATETIME2": 6}
_UNKNOWN_DIGITS = re.compile(r"\(\s*[124578]\s*\)")
"""Digits of a second that DataFusion does not accept: it accepts 0, 3, 6 and 9."""
_SUFFIXES = ("with", "without", "time", "zone", "varying", "precision", "unsigned", "large", "object", "local")


WITH_DOUBLES = ("postgres", "snowflake")
"""The dialects whose FLOAT has 64 bits."""
_SINGLE_BITS = 24
"""Most bits of a number that a REAL keeps: `float(24)` is a REAL in PostgreSQL."""


def wide_floats(source: Source) -> Iterator[Edit]:
    """Rewrite `CREATE TABLE t (a float, b float(30))` as `CREATE TABLE t (a DOUBLE, b DOUBLE)`."""
    if not source.is_word(0, "create") or (opening := column_list(source)) is None:
        return
    inner = source.tokens[opening : source.closing.get(opening, opening) + 1]
    for at in (opening + first + 1 for first, last in column_ranges(inner) if last - first > 1):
        if source.is_word(at, "float") and source.tokens[at - 1].kind in {TokenKind.WORD, TokenKind.QUOTED}:
            is_sized = source.is_symbol(at + 1, "(") and source.is_symbol(at + 3, ")")
            bits = source.tokens[at + 2].text if is_sized else ""
            is_single = bits.isdecimal() and int(bits) <= _SINGLE_BITS
            last = source.tokens[at + 3 if is_sized else at]
            yield Edit(source.tokens[at].start, last.end, "REAL" if is_single else "DOUBLE")


def types(source: Source) -> Iterator[Edit]:
    """Rewrite `CAST(a AS NVARCHAR(10))` as `CAST(a AS VARCHAR(10))`; also after `::` and in CREATE TABLE."""
    for first, last in _ranges(source):
        word = source.tokens[first].text.lower()
        written = source.text(first, last)
        if word in _KNOWN and not (word == "character" and source.is_word(first + 1, "varying")):
            continue
        if word == "timestamp" and not _UNKNOWN_DIGITS.search(written):
            continue
        if word == "time" and "(" not in written:
            continue
        instead = datafusion_type(written)
        if instead is not None and word.endswith("serial") and source.is_word(0, "create"):
            instead += " NOT NULL"  # rows are not numbered automatically here, so a row without a number is refused
        if instead is not None and instead.lower() != written.lower():
            yield Edit(source.tokens[first].start, source.tokens[last - 1].end, instead)


def _ranges(source: Source) -> Iterator[tuple[int, int]]:
    """Yield the token ranges of types."""
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.is_symbol("::"):
            yield from type_range(source, index + 1)
        elif token.is_word("cast", "try_cast", "safe_cast") and source.is_symbol(index + 1, "("):
            as_ = end_of_cast_value(source, index + 1)
            yield from type_range(source, as_ + 1) if as_ else ()
    if source.is_word(0, "create") and (opening := column_list(source)) is not None:
        inner = tokens[opening : source.closing.get(opening, opening) + 1]
        for first, last in column_ranges(inner):
            if is_json_column(inner, first, last):  # the table keeps this type
                continue
            if last - first > 1 and inner[first].kind in {TokenKind.WORD, TokenKind.QUOTED}:
                yield from type_range(source, opening + first + 1)


def end_of_cast_value(source: ParsedText, opening: int) -> int:
    """Return the index of the AS of a CAST, or 0 without an AS."""
    index, end = opening + 1, source.closing.get(opening, opening)
    while index < end:
        if source.is_word(index, "as"):
            return index
        index = source.closing.get(index, index) + 1
    return 0


def column_list(source: Source) -> int | None:
    """Return the index of the parenthesis that begins the columns of CREATE TABLE."""
    index = 1
    while source.is_word(index, "or", "replace", "temp", "temporary", "local", "global"):
        index += 1
    if not source.is_word(index, "table"):
        return None
    index += 4 if source.is_word(index + 1, "if") else 1
    while index < len(source.tokens) and source.tokens[index].kind in {TokenKind.WORD, TokenKind.QUOTED}:
        if not source.is_symbol(index + 1, "."):
            return index + 1 if source.is_symbol(index + 1, "(") else None
        index += 2
    return None


def type_range(source: ParsedText, first: int) -> Iterator[tuple[int, int]]:
    """Yield the range of the type that begins at a token: its first word, further words, and parameters in between."""
    if (
        first >= len(source.tokens)
        or source.tokens[first].kind is not TokenKind.WORD
        or source.is_symbol(first + 1, ".")
    ):
        return
    last = first + 1
    while source.is_word(last, *_SUFFIXES) or (source.is_symbol(last, "(") and last in source.closing):
        last = source.closing.get(last, last) + 1
    yield first, last


@lru_cache(maxsize=256)
def datafusion_type(written: str) -> str | None:
    """Return DataFusion's name for a type of another dialect; None if no type of DataFusion fits."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    for dialect in _DIALECTS:
        try:
            found = exp.DataType.build(written, dialect=dialect)
        except SqlglotError:
            continue
        if not isinstance(found.this, exp.DType):
            continue
        return _written(found.this.name, [parameter.name for parameter in found.expressions])
    return None


def _written(kind: str, parameters: Sequence[str]) -> str | None:
    if kind == "DECIMAL":
        return f"DECIMAL({', '.join(parameters)})" if parameters else "DECIMAL"
    if kind == "TIME":
        return "TIME"
    if kind == "BIT":
        return "BOOLEAN" if parameters in ([], ["1"]) else None
    if kind in _TIMES:
        name, usual = _TIMES[kind]
        digits = parameters[0] if parameters else usual
        return f"{name}({_precision(int(digits), _MOST.get(kind, 9))})" if digits.isdecimal() else name
    found = _TYPES.get(kind)
    has_length = found == "VARCHAR" and len(parameters) == 1 and parameters[0].isdecimal()
    return f"{found}({parameters[0]})" if has_length else found


def _precision(digits: int, at_most: int) -> int:
    """Return the next higher number of digits that Arrow has: 0, 3, 6 or 9."""
    return min(at_most, next((known for known in (0, 3, 6) if digits <= known), 9))
