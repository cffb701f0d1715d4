"""The SQLSTATE of each error: a stable code, with PostgreSQL's meaning."""

import re

from flightllm.common.names import CATALOG, DEFAULT_SCHEMA
from flightllm.errors import (
    AICallError,
    BitstreamError,
    BudgetExceededError,
    BusyError,
    CancelledError,
    EngineError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    MissingExtraError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
    StatementTimeoutError,
    StoreUnavailableError,
    UnauthenticatedError,
    UnknownTableError,
    UnsupportedError,
)

INTERNAL = "XX000"

_PART = r'(?:"(?:[^"]|"")*+"|[^\s.",]++)'
_NO_FIELD = re.compile(rf"no field named ({_PART}(?:\.{_PART})*+)", re.IGNORECASE)
_LISTED = re.compile(rf"{_PART}(?:\.{_PART})*+")
_PARTS = re.compile(_PART)

_DATE = r"'\s*\d+-\d+-\d+[^']*'"
"""A text in the form of a date."""
_BY_TEXT: tuple[tuple[type[FlightLLMError], re.Pattern[str], str], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE), code)
    for kind, pattern, code in (
        (SqlError, r"^syntax error|^no statement starts|unterminated|; found |, found |' was not expected: ", "42601"),
        (SqlError, r"^table '.*' not found", "42P01"),
        (SqlError, r"no field named", "42703"),
        (SqlError, r"ambiguous", "42702"),
        (SqlError, r"^invalid function|no function matches", "42883"),
        (SqlError, r"divide by zero|division by zero", "22012"),
        (SqlError, r"overflow|is out of range of its type|is too large to store in", "22003"),
        (SqlError, r"must be in GROUP BY|aggregate functions are not allowed", "42803"),
        (SqlError, r"subquery returned more than one row", "21000"),
        (SqlError, r"different number of columns", "42601"),
        (SqlError, r"^limit must be", "2201W"),
        (SqlError, r"^offset must be", "2201X"),
        (FlightLLMError, r"is NULL, but its column is NOT NULL|(?:is|declared as) non-nullable", "23502"),
        (
            SqlError,
            rf"cannot cast string {_DATE} to value of (?:date|time)|error parsing timestamp from {_DATE}",
            "22008",
        ),
        (SqlError, r"cannot cast string '[^']*' to value of (?:date|time)|error parsing timestamp", "22007"),
        (SqlError, r"invalid input syntax for type (?:interval|timestamp|date|time)", "22007"),
        (SqlError, r"^cast error|cannot cast", "22P02"),
        (SqlError, r"coerce|type mismatch|automatically convert", "42804"),
        (SqlError, r"parameters?\b.{0,100}\bbound", "07001"),
        (NotFoundError, r"no table", "42P01"),
        (NotFoundError, r"no schema|no catalog", "3F000"),
        (NotFoundError, r"no such prepared statement", "26000"),
        (InvalidInputError, r"^the schema \S+ exists\b", "42P06"),
        (InvalidInputError, r"\bexists\b", "42P07"),
        (InvalidInputError, r"uploaded data is", "22P03"),
        (PermissionDeniedError, r"can only be read", "42809"),
        (PermissionDeniedError, r"^flightllm.read_only is on", "25006"),
        (EngineUnavailableError, r"shutting down", "57P01"),
    )
)
"""Codes by the text of an error: DataFusion's errors all have the same class."""
_BY_CLASS: tuple[tuple[type[FlightLLMError], str], ...] = (
    (AICallError, "22023"),
    (UnknownTableError, "42P01"),
    (SqlError, "42000"),
    (BudgetExceededError, "53400"),
    (LimitExceededError, "54000"),
    (InvalidInputError, "22023"),
    (NotFoundError, "42704"),
    (UnsupportedError, "0A000"),
    (MissingExtraError, "0A000"),
    (UnauthenticatedError, "28000"),
    (PermissionDeniedError, "42501"),
    (CancelledError, "57014"),
    (StatementTimeoutError, "57014"),
    (BusyError, "53300"),
    (EngineUnavailableError, "08006"),
    (StoreUnavailableError, "08006"),
    (BitstreamError, "XX001"),
    (EngineError, "38000"),
)
"""Most particular first; the first class that fits decides."""


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error, five characters; `XX000` for a defect."""
    if not isinstance(error, FlightLLMError):
        return INTERNAL
    text = str(error)
    if isinstance(error, SqlError) and _lacks_table(text):
        return "42P01"
    for kind, pattern, code in _BY_TEXT:
        if isinstance(error, kind) and pattern.search(text):
            return code
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), INTERNAL)


def missing_field(text: str) -> tuple[list[str], str] | None:
    """Return the parts of the column that an error says is missing, and the text after it; None for another error."""
    named = _NO_FIELD.match(text)
    return None if named is None else (_parts(named[1]), text[named.end() :])


def _lacks_table(text: str) -> bool:
    """Return whether an error is about a column of a table that FROM does not have: `SELECT x.a FROM t`."""
    named = missing_field(text)
    if named is None:
        return False
    (*qualifier, _), rest = named
    _, listed, fields = rest.partition("Valid fields are ")
    if not qualifier or not listed:
        return False
    return not any(_is_same(qualifier, _parts(field)[:-1]) for field in _LISTED.findall(fields))


def _parts(name: str) -> list[str]:
    """Return the parts of a qualified name without their quotes."""
    return [part[1:-1].replace('""', '"') if part[0] == '"' else part for part in _PARTS.findall(name)]


def _is_same(one: list[str], other: list[str]) -> bool:
    """Return whether two names of tables can mean one table; a name can lack its schema and its catalog."""
    known = [CATALOG, DEFAULT_SCHEMA][: 3 - len(other)] + other
    return bool(other) and known[-len(one) :] == one
