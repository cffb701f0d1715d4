"""Errors as PostgreSQL's clients get them: severity, SQLSTATE, message, hint and position."""

import re
from collections.abc import Mapping

from flightllm.errors import CancelledError, FlightLLMError
from flightllm.flight.errors import to_status
from flightllm.flight.sqlstates import missing_field, sqlstate
from flightllm.sql.names import identifier
from flightllm.sql.tokens import tokenize

_PLACE = re.compile(r"(?: at Line: (\d{1,9}), Column: (\d{1,9})| at (\d{1,9}):(\d{1,9}))")

_NULL_COLUMN = re.compile(r"[Cc]olumn '((?:[^']|'')+)' is (?:declared as )?non-nullable")


class WireError(FlightLLMError):
    """An error with its SQLSTATE. A `fatal` error ends the connection."""

    def __init__(self, code: str, text: str, *, hint: str = "", fatal: bool = False, routine: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.hint = hint
        self.fatal = fatal
        self.routine = routine
        """PostgreSQL's function that raises the error, where drivers look for it."""


class ClientGoneError(Exception):
    """The connection has ended, so nobody gets an answer."""


def fatal(code: str, text: str, hint: str = "") -> WireError:
    """Return an error that ends the connection."""
    return WireError(code, text, hint=hint, fatal=True)


def fields_of(error: BaseException, sql: str = "", before: int = 0, query_id: str | None = None) -> Mapping[str, str]:
    """Return the fields of an error by their letters; the log has the details of a defect.

    `before` is the number of characters before the statement `sql` in the text that the client sent.
    """
    severity = "FATAL" if isinstance(error, WireError) and error.fatal else "ERROR"
    code = error.code if isinstance(error, WireError) else sqlstate(error)
    said = str(error) if isinstance(error, WireError) else str(to_status(error, query_id))
    if type(error) is CancelledError and said == "the client cancelled the statement":
        said = "canceling statement due to user request"  # some clients look for PostgreSQL's text
    fields = {"S": severity, "V": severity, "C": code, "M": said}
    if isinstance(error, WireError) and error.hint:
        fields["H"] = error.hint
    if isinstance(error, WireError) and error.routine:
        fields["R"] = error.routine
    if code == "23502" and (column := _NULL_COLUMN.search(said)):
        fields["c"] = column[1]
    if sql and (offset := _position(sql, said)) is not None:
        fields["P"] = str(before + offset)
    return fields


def _position(sql: str, said: str) -> int | None:
    """Return the place that a message tells: by line and column, by the end, or by a column that the text has once."""
    if place := _PLACE.search(said):
        line, column = (int(part) for part in place.groups() if part is not None)
        return _offset(sql, line, column)
    if said.endswith(", found: EOF"):
        return len(sql) + 1
    if (found := missing_field(said)) is None:
        return None
    tokens, named = tokenize(sql), found[0]
    names = [identifier(token) or token.text for token in tokens]
    written = [part for name in named for part in (name, ".")][:-1]
    places = [at for at in range(len(tokens)) if names[at : at + len(written)] == written]
    return tokens[places[0]].start + 1 if len(places) == 1 else None


def notice(text: str, code: str = "01000", severity: str = "WARNING") -> Mapping[str, str]:
    """Return the fields of a notice."""
    return {"S": severity, "V": severity, "C": code, "M": text}


def _offset(sql: str, line: int, column: int) -> int | None:
    """Return the place of a line and column as a number of characters, from 1; None outside the text."""
    lines = sql.split("\n")
    if not 0 < line <= len(lines) or not 0 < column <= len(lines[line - 1]) + 1:
        return None
    return sum(len(one) + 1 for one in lines[: line - 1]) + column
