"""The variables of a session in Snowflake's dialect: SET x = 5, then $x and IDENTIFIER($x) in a statement."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flightllm.dialect.text import Edit, Rewritten
from flightllm.errors import FlightLLMError, InvalidInputError, SqlError
from flightllm.sql.literals import text_literal
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

DIALECT: Final = "snowflake"
_COMMENTS: Final = r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
_SET: Final = re.compile(
    rf"{_COMMENTS}set\s+(?:(?P<one>\w+)|\((?P<names>[\w\s,]+)\))\s*=\s*(?P<value>.+?)\s*;?\s*",
    re.DOTALL | re.IGNORECASE,
)
_UNSET: Final = re.compile(
    rf"{_COMMENTS}unset\s+(?:(?P<one>\w+)|\((?P<names>[\w\s,]+)\))\s*;?\s*", re.DOTALL | re.IGNORECASE
)
_LONGEST: Final = 256
"""The most bytes of a text, as in Snowflake."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """SET of variables to the values of a query, or UNSET of variables, which has no query."""

    names: tuple[str, ...]
    query: str = ""


def read_assignment(sql: str) -> Assignment | None:
    """Return the variables that a statement sets; None for any other statement."""
    if (found := _UNSET.fullmatch(sql)) is not None:
        return Assignment(_names(found))
    if (found := _SET.fullmatch(sql)) is None:
        return None
    value = found["value"]
    if found["names"] is not None:
        inner = value[1:-1].strip() if value[:1] == "(" and value[-1:] == ")" else ""
        if not inner:
            raise SqlError("write a value for each variable, as in SET (a, b) = (1, 'x')")
        is_query = re.match(r"(?:select|with)\b", inner, re.IGNORECASE) is not None
        return Assignment(_names(found), inner if is_query else f"SELECT {inner}")
    return Assignment(_names(found), f"SELECT {value}")


def _names(found: re.Match[str]) -> tuple[str, ...]:
    return tuple(one.strip().lower() for one in (found["one"] or found["names"]).split(","))


class Variables:
    """The values of a session's variables, as literals of Snowflake."""

    def __init__(self) -> None:
        self._literals: Mapping[str, str] = {}
        self._names: Mapping[str, str] = {}
        self.state: tuple[str, ...] = ()
        """All names and literals: a plan depends on them."""

    def assign(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Set variables to values.

        Raises:
            InvalidInputError: a value has no literal, or is too long.
        """
        self._literals = {**self._literals, **dict(zip(names, map(_literal, values), strict=True))}
        texts = {name: value for name, value in zip(names, values, strict=True) if isinstance(value, str)}
        self._names = {name: text for name, text in self._names.items() if name not in names} | texts
        self._note()

    def drop(self, names: Sequence[str]) -> None:
        """Forget variables."""
        self._literals = {name: text for name, text in self._literals.items() if name not in names}
        self._names = {name: text for name, text in self._names.items() if name not in names}
        self._note()

    def _note(self) -> None:
        self.state = tuple(f"{name}={literal}" for name, literal in sorted(self._literals.items()))

    def written(self, sql: str) -> str:
        """Return a statement with the values of variables and the names of IDENTIFIER in their places.

        Raises:
            SqlError: IDENTIFIER has no name; or the text cannot be split into tokens.
        """
        if "$" not in sql and "identifier" not in sql.lower():
            return sql
        from flightllm.dialect.plain_texts import plain_texts

        try:
            plain = plain_texts(sql, DIALECT)
        except FlightLLMError:
            return sql  # the next step tells why
        edits = [
            Edit(plain.sent_at(one.start), plain.sent_at(one.end), one.text)
            for one in self._edits(ParsedText(plain.text))
        ]
        return Rewritten(sql, sql).with_edits(edits).text if edits else sql

    def check_set(self, text: ParsedText) -> None:
        """Raise `SqlError` if a statement that binds no values still has a `$name`."""
        if "$" not in text.sql:
            return
        for token in text.tokens:
            if token.kind is TokenKind.PLACEHOLDER and token.text[:1] == "$" and not token.text[1:].isdecimal():
                name = token.text[1:]
                raise SqlError(f"the variable ${name} has no value: write SET {name} = 'text' before")

    def _edits(self, text: ParsedText) -> Iterator[Edit]:
        tokens, at = text.tokens, 0
        while at < len(tokens):
            token = tokens[at]
            if token.is_word("identifier") and text.is_symbol(at + 1, "(") and text.is_symbol(at + 3, ")"):
                yield Edit(token.start, tokens[at + 3].end, self._name(tokens[at + 2]))
                at += 4
                continue
            literal = self._literals.get(token.text[1:].lower()) if token.kind is TokenKind.PLACEHOLDER else None
            if literal is not None and token.text[:1] == "$":
                yield Edit(token.start, token.end, literal)
            at += 1

    def _name(self, token: Token) -> str:
        if token.kind is TokenKind.STRING:
            return token.text
        name = self._names.get(token.text[1:].lower()) if token.text[:1] == "$" else None
        if token.kind is TokenKind.PLACEHOLDER and name is not None:
            return name
        raise SqlError(
            f"IDENTIFIER needs a text, or a variable with a text: write SET {token.text.lstrip('$')} = 'name' before"
        )


def values_of(table: pa.Table, names: Sequence[str]) -> list[Any]:
    """Return the values of the only row of a query.

    Raises:
        InvalidInputError: it has another number of rows or columns.
    """
    if table.num_rows != 1 or table.num_columns != len(names):
        raise InvalidInputError(
            f"SET of {len(names)} variables needs one row with {len(names)} values, and has {table.num_rows} rows with"
            f" {table.num_columns}: write one value for each"
        )
    return [column[0].as_py() for column in table.columns]


def _literal(value: Any) -> str:
    if isinstance(value, str):
        if len(value.encode()) > _LONGEST:
            raise InvalidInputError(f"a variable has at most {_LONGEST} bytes: write a longer text in the statement")
        return text_literal(value.replace("\\", "\\\\"))
    shown = type(value).__name__
    if value is None or isinstance(value, bool):
        return str(value if value is not None else "NULL").upper()
    if shown in {"int", "float", "Decimal"}:
        return f"({value})" if str(value).startswith("-") else str(value)
    if shown in _TIMES:
        return f"'{value}'::{_TIMES[shown]}"
    raise InvalidInputError(f"a variable has no values of the type {shown}: write a number, a text or a time")


_TIMES: Final = {"date": "DATE", "datetime": "TIMESTAMP", "Timestamp": "TIMESTAMP", "time": "TIME"}
