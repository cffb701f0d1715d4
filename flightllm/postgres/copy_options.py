"""The options of COPY, in both of PostgreSQL's spellings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flightllm.common.switches import switch
from flightllm.postgres.failures import WireError
from flightllm.sql.cursor import Cursor
from flightllm.sql.tokens import Token, TokenKind

_FORMATS = ("text", "csv", "binary")
_IGNORED = ("freeze", "on_error", "log_verbosity", "oids")


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How rows are written; `null` is the text of NULL."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    match: bool = False
    """Whether the header must have the columns' names."""
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] = ()
    """The columns whose values are always quoted; `*` means all."""
    force_null: tuple[str, ...] = ()
    """The columns in which a quoted text of NULL is NULL too."""
    force_not_null: tuple[str, ...] = ()
    """The columns in which the text of NULL is a text."""


_Given = dict[str, Sequence[str]]
"""The values of each option; only a list of columns has more than one."""


def read_options(tokens: Sequence[Token], *, reads: bool) -> CopyOptions:
    """Read `[WITH] (FORMAT csv, HEADER true, …)`, or the older `[WITH] CSV HEADER DELIMITER ';'`.

    `reads` tells whether the rows come from the client.

    Raises:
        WireError: an option is unknown or wrong.
    """
    cursor = Cursor(tokens, 0)
    _ = cursor.take("with")
    given = _listed(cursor) if cursor.symbol("(") else _older(cursor)
    kind = ",".join(given.pop("format", ["text"])).lower()
    if kind not in _FORMATS:
        raise WireError("22023", f'COPY format "{kind}" not recognized')
    options = CopyOptions("csv", ",", "") if kind == "csv" else CopyOptions(kind)
    found = replace(options, **_changes(given, csv=kind == "csv", reads=reads))
    for name in ("delimiter", "quote", "escape"):
        if len(getattr(found, name).encode()) != 1 or getattr(found, name) in "\r\n":
            raise WireError("22023", f"COPY {name} must be a single one-byte character")
    if "\n" in found.null or "\r" in found.null or found.delimiter in found.null:
        raise WireError("22023", "COPY null representation cannot use newline, carriage return or the delimiter")
    return found


def _changes(given: Mapping[str, Sequence[str]], *, csv: bool, reads: bool) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, values in given.items():
        value = ",".join(values)
        if name == "header":
            changes["match"] = value.lower() == "match"
            changes["header"] = changes["match"] or _flag(name, value)
        elif name in ("delimiter", "null", "quote", "escape"):
            changes[name] = value
        elif name in ("force_quote", "force_null", "force_not_null"):
            _check_force(name.replace("_", " "), csv=csv, reads=reads)
            changes[name] = tuple(values)
        elif name == "encoding":
            if value.lower().replace("-", "") != "utf8":
                raise WireError("0A000", f"COPY encoding {value!r} is not supported: send UTF-8")
        elif name not in _IGNORED:
            raise WireError("42601", f'option "{name}" not recognized')
    if csv and "escape" not in changes and "quote" in changes:
        changes["escape"] = changes["quote"]
    return changes


def _check_force(option: str, *, csv: bool, reads: bool) -> None:
    if not csv:
        raise WireError("0A000", f"COPY {option} available only in CSV mode")
    if reads == (option == "force quote"):
        raise WireError("0A000", f"COPY {option} only available using COPY {'TO' if reads else 'FROM'}")


def _flag(name: str, value: str) -> bool:
    found = True if value == "" else switch(value)
    if found is None:
        raise WireError("42601", f"{name} requires a Boolean value")
    return found


def _listed(cursor: Cursor) -> _Given:
    found: _Given = {}
    while not cursor.symbol(")"):
        name = cursor.next()
        if name is None:
            raise WireError("42601", "the options of COPY have no end")
        values: list[str] = []
        depth = 0
        while (token := cursor.next()) is not None:
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth < 0 or (token.is_symbol(",") and not depth):
                break
            if token.kind is not TokenKind.SYMBOL or token.text == "*":
                values.append(_column(token) if name.text.lower().startswith("force_") else token.text)
        found[name.text.lower()] = values
        if token is None:
            raise WireError("42601", "the options of COPY have no end")
        if depth < 0:
            return found
    return found


def _older(cursor: Cursor) -> _Given:
    found: _Given = {}
    while (token := cursor.next()) is not None:
        word = token.text.lower()
        if word in _FORMATS:
            found["format"] = [word]
        elif word == "header":
            found["header"] = ["match" if cursor.take("match") else "true"]
        elif word in ("delimiter", "delimiters", "null", "quote", "escape", "encoding"):
            _ = cursor.take("as")
            value = cursor.next()
            if value is None:
                raise WireError("42601", f"{word.upper()} of COPY needs a value")
            found[word.removesuffix("s")] = [value.text]
        elif word == "force" and (kind := _forced(cursor)):
            found[kind] = _columns(cursor)
        elif not token.is_symbol(";"):
            raise WireError("42601", f"COPY option {token.text[:40]!r} not recognized")
    return found


def _forced(cursor: Cursor) -> str:
    if cursor.take("quote"):
        return "force_quote"
    if cursor.take("not", "null"):
        return "force_not_null"
    return "force_null" if cursor.take("null") else ""


def _columns(cursor: Cursor) -> Sequence[str]:
    found = list[str]()
    while (token := cursor.next()) is not None:
        found.append(_column(token))
        if not cursor.symbol(","):
            break
    return found


def _column(token: Token) -> str:
    """Return the name of a column, or a star; an unquoted name is in lower case."""
    return token.text if token.kind is TokenKind.QUOTED else token.text.lower()
