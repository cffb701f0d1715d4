"""The variables of a session in Snowflake's dialect: SET x = 5, then $x and IDENTIFIER($x) in a statement."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from flightllm.common.names import quoted
from flightllm.dialect.text import Edit, Rewritten
from flightllm.errors import FlightLLMError, InvalidInputError, SqlError
from flightllm.sql.client_parameters import CLIENT_PARAMETERS
from flightllm.sql.literals import text_literal
from flightllm.sql.names import read_parts
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

DIALECT: Final = "snowflake"
_BEGINS: Final = re.compile(r"(?:\s++|--[^\n]*+|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+(?:un)?set\b", re.IGNORECASE)
"""The begin of a statement that can set a variable; only such a statement is split into tokens."""
_NAME: Final = re.compile(r"[A-Za-z_][\w$]*")
_OF_CLIENTS: Final = (CLIENT_PARAMETERS - {"names"}) | {"search_path", "schema", "current_schema", "catalog"}
"""Names after SET that are parameters of clients or of the server, and so cannot be variables."""
_MOST_TEXTS: Final = 16
"""The most statements whose variables are kept: a client describes a statement before it runs it."""
_LONGEST: Final = 256
"""The most bytes of a text, as in Snowflake."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """SET of variables to the values of a query, or UNSET of variables, which has no query."""

    names: tuple[str, ...]
    query: str = ""
    types: tuple[str, ...] | None = None
    """The types of BigQuery's variables, each empty before its first value; Snowflake's variables have no types."""


def read_assignment(sql: str) -> Assignment | None:
    """Return the variables that a statement sets; None for any other statement, such as SET of a client's parameter.

    Raises:
        SqlError: a list of variables lacks its values, or names a parameter of clients.
    """
    return None if _BEGINS.match(sql) is None else _assignment(sql)


@lru_cache(maxsize=_MOST_TEXTS)
def _assignment(sql: str) -> Assignment | None:
    from flightllm.dialect.plain_texts import plain_texts

    try:
        plain = plain_texts(sql, DIALECT)
        text = ParsedText(plain.text)
        tokens = text.tokens
    except SqlError:
        return None  # the next step tells why
    names, at = _names(text)
    if not _can_be_variables(names):
        return None
    end = len(tokens)
    while end > at and tokens[end - 1].is_symbol(";"):
        end -= 1
    if tokens[0].is_word("unset"):
        return Assignment(names) if at == end else None
    if not text.is_symbol(at, "=") or at + 1 == end:
        return None
    first, last, is_query = at + 1, end - 1, False
    if tokens[1].is_symbol("("):
        if not text.is_symbol(first, "(") or text.closing.get(first) != last or last == first + 1:
            raise SqlError("write a value for each variable, as in SET (a, b) = (1, 'x')")
        first, last = first + 1, last - 1
        is_query = tokens[first].is_word("select", "with")
    value = sql[plain.sent_at(tokens[first].start) : plain.sent_at(tokens[last].end)]
    return Assignment(names, value if is_query else f"SELECT {value}")


def _can_be_variables(names: Sequence[str]) -> bool:
    if len(names) == 1:
        return names[0] not in _OF_CLIENTS
    if taken := [name for name in names if name in _OF_CLIENTS]:
        raise SqlError(f"{taken[0]} is a parameter of the session: write SET {taken[0]} = … as a statement of its own")
    return bool(names)


def _names(text: ParsedText) -> tuple[tuple[str, ...], int]:
    """Return the names after SET or UNSET and the index after them; no names if the text has something else there."""
    tokens = text.tokens
    if not text.is_symbol(1, "("):
        named, after = tokens[1:2], 2
    else:
        after = next((at for at, token in enumerate(tokens) if token.is_symbol(")")), 1) + 1
        if any(not token.is_symbol(",") for token in tokens[3 : after - 1 : 2]):
            return (), after
        named = tokens[2 : after - 1 : 2]
    if not all(token.kind is TokenKind.WORD and _NAME.fullmatch(token.text) for token in named):
        return (), after
    return tuple(token.text.lower() for token in named), after


class Variables:
    """The values of a session's variables, as literals of Snowflake."""

    def __init__(self) -> None:
        self._literals: Mapping[str, str] = {}
        self._names: Mapping[str, str] = {}
        self.state: tuple[str, ...] = ()
        """All names and literals: a plan depends on them."""

    def assign(self, names: Sequence[str], values: Sequence[pa.Scalar]) -> None:
        """Set variables to values.

        Raises:
            InvalidInputError: a value has no literal, or is too long.
        """
        self._literals = {**self._literals, **dict(zip(names, map(_literal, values), strict=True))}
        found = zip(names, map(_text_of, values), strict=True)
        texts = {name: text for name, text in found if text is not None}
        self._names = {name: text for name, text in self._names.items() if name not in names} | texts
        self._note()

    def drop(self, names: Sequence[str]) -> None:
        """Forget variables."""
        self._literals = {name: text for name, text in self._literals.items() if name not in names}
        self._names = {name: text for name, text in self._names.items() if name not in names}
        self._note()

    def _note(self) -> None:
        self.state = tuple(f"{name}={literal}" for name, literal in sorted(self._literals.items()))

    def written(self, sql: str, bound: Collection[str] = ()) -> str:
        """Return a statement with the values of variables and the names of IDENTIFIER in their places.

        A placeholder with a name in `bound` stays, because the client binds its value.

        Raises:
            SqlError: IDENTIFIER has no name.
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
            for one in self._edits(ParsedText(plain.text), frozenset(bound))
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

    def _edits(self, text: ParsedText, bound: frozenset[str]) -> Iterator[Edit]:
        tokens, at = text.tokens, 0
        alone = {first for select in text.selects for first, end in select.items if end - first == 1}
        while at < len(tokens):
            token = tokens[at]
            if token.is_word("identifier") and text.is_symbol(at + 1, "(") and text.is_symbol(at + 3, ")"):
                yield Edit(token.start, tokens[at + 3].end, self._name(tokens[at + 2]))
                at += 4
                continue
            literal = self._literals.get(token.text[1:].lower()) if token.kind is TokenKind.PLACEHOLDER else None
            if literal is not None and token.text[:1] == "$" and token.text[1:] not in bound:
                name = f" AS {quoted(token.text.upper())}" if at in alone else ""
                yield Edit(token.start, token.end, literal + name)
            at += 1

    def _name(self, token: Token) -> str:
        if token.kind is TokenKind.STRING:
            return _qualified(token.text)
        name = self._names.get(token.text[1:].lower()) if token.text[:1] == "$" else None
        if token.kind is TokenKind.PLACEHOLDER and name is not None:
            return _qualified(name)
        raise SqlError(
            f"IDENTIFIER needs a text, or a variable with a text: write SET {token.text.lstrip('$')} = 'name' before"
        )


def _qualified(text: str) -> str:
    """Return the SQL of a name such as `schema.table`; a keyword gets quotes, so that it is a name too.

    Raises:
        SqlError: the text is not one name.
    """
    tokens = ParsedText(text).tokens
    parts, after = read_parts(tokens, 0)
    if not parts or after != len(tokens) or tokens[-1].is_symbol("."):
        raise SqlError(f"IDENTIFIER needs one name, not {text[:60]!r}: write IDENTIFIER('schema.table')")
    return ".".join(
        token.text if token.kind is TokenKind.WORD and not _is_keyword(token.text) else quoted(part)
        for token, part in zip(tokens[::2], parts, strict=True)
    )


def _is_keyword(word: str) -> bool:
    from sqlglot.dialects.snowflake import Snowflake

    return word.upper() in Snowflake.Tokenizer.KEYWORDS


def values_of(table: pa.Table, names: Sequence[str]) -> list[pa.Scalar]:
    """Return the values of the only row of a query.

    Raises:
        InvalidInputError: it has another number of rows or columns.
    """
    if table.num_rows != 1 or table.num_columns != len(names):
        raise InvalidInputError(
            f"SET of {len(names)} variables needs one row with {len(names)} values, and has {table.num_rows} rows with"
            f" {table.num_columns}: write one value for each"
        )
    return [column[0] for column in table.columns]


def _text_of(value: pa.Scalar) -> str | None:
    found = value.as_py() if value.is_valid and not pa.types.is_temporal(value.type) else None
    return found if isinstance(found, str) else None


def _literal(value: pa.Scalar) -> str:
    """Return a value as SQL of Snowflake that keeps the value and its type."""
    kind = value.type
    if pa.types.is_dictionary(kind):
        return _literal(value.cast(kind.value_type))
    if pa.types.is_null(kind):
        return "NULL"
    name = _type_name(kind)
    if not value.is_valid:
        return f"CAST(NULL AS {name})"
    if name == "VARCHAR":
        text = str(value.as_py())
        if len(text.encode()) > _LONGEST:
            raise InvalidInputError(f"a variable has at most {_LONGEST} bytes: write a longer text in the statement")
        return text_literal(text.replace("\\", "\\\\"))
    if pa.types.is_boolean(kind):
        return str(value.as_py()).upper()
    if pa.types.is_integer(kind):
        number = value.as_py()
        return str(number) if number >= 0 else f"({number})"  # in parentheses: `--1` would be a comment
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"CAST('{value.cast(pa.timestamp(kind.unit)).cast(pa.string())}+00:00' AS {name})"
    return f"CAST('{value.cast(pa.string())}' AS {name})"


def _type_name(kind: pa.DataType) -> str:
    """Return Snowflake's name of a type.

    Raises:
        InvalidInputError: a variable has no values of the type.
    """
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    for matches, name in _TYPES:
        if matches(kind):
            return name
    raise InvalidInputError(f"a variable has no values of the type {kind}: write a number, a text or a time")


_TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)), "VARCHAR"),
    (lambda kind: bool(pa.types.is_string_view(kind)), "VARCHAR"),
    (lambda kind: bool(pa.types.is_integer(kind)), "BIGINT"),
    (lambda kind: bool(pa.types.is_floating(kind)), "DOUBLE"),
    (lambda kind: bool(pa.types.is_boolean(kind)), "BOOLEAN"),
    (lambda kind: bool(pa.types.is_date(kind)), "DATE"),
    (lambda kind: bool(pa.types.is_timestamp(kind) and kind.tz is None), "TIMESTAMP"),
    (lambda kind: bool(pa.types.is_timestamp(kind)), "TIMESTAMP_TZ"),
    (lambda kind: bool(pa.types.is_time(kind)), "TIME"),
)
