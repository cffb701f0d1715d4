"""The variables of a session in BigQuery's dialect: DECLARE x INT64 DEFAULT 3, SET x = 5, then x and @x in a text."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flightllm.dialect.text import Edit, Rewritten
from flightllm.errors import FlightLLMError, InvalidInputError, SqlError
from flightllm.session.variables import Assignment
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

DIALECT: Final = "bigquery"
_BEGINS: Final = re.compile(r"(?:\s++|--[^\n]*+|#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+(?:declare|set)\b", re.IGNORECASE)
"""The begin of a statement that can set a variable; only such a statement is split into tokens."""
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("INT64", "INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "BYTEINT"), "INT64"),
    **dict.fromkeys(("NUMERIC", "DECIMAL"), "NUMERIC"),
    **{one: one for one in ("FLOAT64", "BOOL", "STRING", "DATE", "DATETIME", "TIMESTAMP", "TIME")},
    "BOOLEAN": "BOOL",
}
"""The types of variables by the words of DECLARE."""
_WITH_COLUMNS: Final = ("from", "update", "merge", "delete", "insert", "create")
"""Words of a statement in which a bare name can be that of a column."""


_CLAUSES: Final = ("select", "from", "where", "by", "having", "qualify", "window", "limit", "offset", "rows", "range")
"""Words that begin a clause."""
_UNITS: Final = frozenset(
    [
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
        "dayofweek",
        "dayofyear",
        "week",
        "isoweek",
        "month",
        "quarter",
        "year",
        "isoyear",
    ]
)
"""Units of times, which functions and intervals take as bare words."""
_WHOLE: Final = re.compile(r"\d+|\(-\d+\)")


class ScriptVariables:
    """The values of a session's variables, as literals of BigQuery."""

    def __init__(self) -> None:
        self._literals: Mapping[str, str] = {}
        self._types: Mapping[str, str] = {}
        self.state: tuple[str, ...] = ()
        """All names and literals: a plan depends on them."""

    def assignment(self, sql: str) -> Assignment | None:
        """Return the variables that a statement declares or sets; None for any other statement.

        Raises:
            SqlError: DECLARE has no name or an unknown type.
        """
        if _BEGINS.match(sql) is None:
            return None
        from flightllm.dialect.plain_texts import plain_texts

        try:
            plain = plain_texts(sql, DIALECT)
            text = ParsedText(plain.text)
        except SqlError:
            return None  # the next step tells why
        read = _Read(sql, plain, text)
        if text.is_word(0, "declare"):
            return _declared(read)
        names, at = read.names()
        if not names or not set(names) <= self._types.keys():
            return None
        return _set(read, names, at, tuple(self._types[name] for name in names))

    def assign(self, assigned: Assignment, values: Sequence[pa.Scalar]) -> None:
        """Set variables to values.

        Raises:
            InvalidInputError: a value does not fit the type of its variable, or has no literal.
        """
        types = assigned.types or ()
        made = [(name, _type(kind, value)) for name, kind, value in zip(assigned.names, types, values, strict=True)]
        try:
            literals = [_literal(value, kind) for (_, kind), value in zip(made, values, strict=True)]
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"the value does not fit the type of its variable: {error}") from error
        self._literals = {**self._literals, **dict(zip(assigned.names, literals, strict=True))}
        self._types = {**self._types, **dict(made)}
        self.state = tuple(f"@{name}={literal}" for name, literal in sorted(self._literals.items()))

    def written(self, sql: str, bound: Collection[str] = ()) -> str:
        """Return a statement with the values of variables in the places of `@x`, and of `x` where no column can be.

        A parameter with a name in `bound` stays, because the client binds its value.

        Raises:
            SqlError: a bare name can be a column or a variable.
        """
        if not self._literals:
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

    def _edits(self, text: ParsedText, bound: frozenset[str]) -> Iterator[Edit]:
        columns = any(token.is_word(*_WITH_COLUMNS) for token in text.tokens)
        clauses = [""]
        for at, token in enumerate(text.tokens):
            _enter(clauses, token)
            literal = self._literals.get(token.text.lower()) if token.kind is TokenKind.WORD else None
            if literal is None or text.is_symbol(at + 1, "(") or _is_part(text, at):
                continue
            if clauses[-1] == "by" and _WHOLE.fullmatch(literal):
                literal = f"CAST({literal} AS INT64)"  # a bare number would be the place of an item
            if text.is_symbol(at - 1, "@"):
                if token.text not in bound:
                    yield Edit(text.tokens[at - 1].start, token.end, literal)
                continue
            name = token.text
            if at and text.tokens[at - 1].kind in {TokenKind.NUMBER, TokenKind.STRING}:
                continue  # a unit after a number, or an alias
            if columns:
                raise SqlError(
                    f"{name} is a variable of the session, and can be a column here: write @{name} for the value of the"
                    f" variable, or t.{name} for the column of a table t"
                )
            is_item = clauses == ["select"] and _is_item(text, at)
            if name.lower() in _UNITS and not is_item:
                raise SqlError(
                    f"{name} is a variable of the session, and can be a unit of time here: write @{name} for the value"
                    " of the variable, or give the variable another name"
                )
            yield Edit(token.start, token.end, f"{literal} AS {name}" if is_item else literal)


def _enter(clauses: list[str], token: Token) -> None:
    """Change the clauses around a token, the inner one last."""
    if token.is_symbol("("):
        clauses.append("")
    elif token.is_symbol(")"):
        del clauses[max(len(clauses) - 1, 1) :]
    elif token.is_word(*_CLAUSES):
        clauses[-1] = token.text.lower()


@dataclass(frozen=True)
class _Read:
    """A statement as the client sent it, in plain form, and its tokens."""

    sql: str
    plain: Rewritten
    text: ParsedText

    @property
    def end(self) -> int:
        """Return the index after the last token before the semicolons at the end."""
        end = len(self.text.tokens)
        while end and self.text.is_symbol(end - 1, ";"):
            end -= 1
        return end

    def sent(self, first: int, last: int) -> str:
        """Return the text from one token to another one as the client sent it."""
        tokens = self.text.tokens
        return self.sql[self.plain.sent_at(tokens[first].start) : self.plain.sent_at(tokens[last].end)]

    def names(self) -> tuple[tuple[str, ...], int]:
        """Return the names after DECLARE or SET, and the index of the token after them."""
        text, opened = self.text, self.text.is_symbol(1, "(")
        names, at = list[str](), 2 if opened else 1
        while at < self.end and text.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}:
            names.append(text.tokens[at].text.lower())
            at += 1
            if not text.is_symbol(at, ","):
                break
            at += 1
        if not opened:
            return tuple(names), at
        return (tuple(names), at + 1) if text.is_symbol(at, ")") else ((), at)


def _declared(read: _Read) -> Assignment:
    """Return the variables of `DECLARE x, y INT64 DEFAULT 3`; the type or the value can be left out."""
    (names, at), text, end = read.names(), read.text, read.end
    typed = at < end and not text.is_word(at, "default")
    kind = _TYPES.get(text.tokens[at].text.upper()) if typed else ""
    given = at + 1 if typed else at
    has_value = given < end
    wrong = has_value and (not text.is_word(given, "default") or given + 1 == end)
    if not names or text.is_symbol(1, "(") or kind is None or wrong or not (kind or has_value):
        raise SqlError(
            "write DECLARE x INT64 DEFAULT 3, with one of the types BOOL, INT64, FLOAT64, NUMERIC, STRING, DATE,"
            " DATETIME, TIME and TIMESTAMP"
        )
    value = _value(read, given + 1, end - 1, kind) if has_value else f"CAST(NULL AS {kind})"
    return Assignment(names, f"SELECT {', '.join([value] * len(names))}", (kind,) * len(names))


def _set(read: _Read, names: tuple[str, ...], at: int, types: tuple[str, ...]) -> Assignment:
    text, end = read.text, read.end
    if not text.is_symbol(at, "=") or at + 1 >= end:
        raise SqlError(f"write the value of a variable, as in SET {names[0]} = 5")
    if not text.is_symbol(1, "("):
        return Assignment(names, f"SELECT {_value(read, at + 1, end - 1, types[0])}", types)
    if not text.is_symbol(at + 1, "(") or text.closing.get(at + 1) != end - 1 or at + 3 == end:
        raise SqlError("write a value for each variable, as in SET (a, b) = (1, 'x')")
    given = read.sent(at + 2, end - 2)
    return Assignment(names, given if text.is_word(at + 2, "select", "with") else f"SELECT {given}", types)


def _is_part(text: ParsedText, at: int) -> bool:
    """Return whether a word is a part of a name with dots, an alias, or a system variable such as `@@x`."""
    joined = text.is_symbol(at - 1, ".") or text.is_symbol(at + 1, ".")
    system = text.is_symbol(at - 1, "@") and text.is_symbol(at - 2, "@")
    return joined or system or text.is_word(at - 1, "as") or text.is_symbol(at + 1, "=>")


def _is_item(text: ParsedText, at: int) -> bool:
    """Return whether a word after SELECT or a comma is a whole item, whose column has the name of the variable."""
    after = at + 1 >= len(text.tokens) or text.is_symbol(at + 1, ",") or text.is_symbol(at + 1, ";")
    ends = at + 1 < len(text.tokens) and text.is_word(at + 1, "order", "limit", "union", "where")
    return (after or ends) and (text.is_word(at - 1, "select", "all", "distinct") or text.is_symbol(at - 1, ","))


def _value(read: _Read, first: int, last: int, kind: str) -> str:
    """Return the value of a variable: BigQuery converts a literal of a text to a time, and one of a number to NUMERIC.

    Other values have no cast, so `assign` can check their type.
    """
    value, tokens = read.sent(first, last), read.text.tokens
    signed = first + 1 == last and (read.text.is_symbol(first, "-") or read.text.is_symbol(first, "+"))
    converts = _LITERALS.get(kind) if first == last or signed else None
    return f"CAST(({value}) AS {kind})" if converts is tokens[last].kind else f"({value})"


_LITERALS: Final = {
    **dict.fromkeys(("DATE", "DATETIME", "TIME", "TIMESTAMP"), TokenKind.STRING),
    "NUMERIC": TokenKind.NUMBER,
}
"""The literals that BigQuery converts to a type."""


def _type(kind: str, value: pa.Scalar) -> str:
    """Return the type of a variable, which is that of its first value without a type in DECLARE.

    Raises:
        InvalidInputError: a variable gets a value of another type, or no variable has such values.
    """
    found = value.type
    if (
        kind
        and value.is_valid
        and not any(matches(found) for matches, name in _KINDS if name in _TAKES.get(kind, {kind}))
    ):
        raise InvalidInputError(f"the variable has the type {kind}: write CAST(value AS {kind})")
    if kind:
        return kind
    for matches, name in _KINDS:
        if matches(found):
            return name
    raise InvalidInputError(f"a variable has no values of the type {found}: write a number, a text or a time")


_KINDS: Final = (
    (pa.types.is_integer, "INT64"),
    (pa.types.is_floating, "FLOAT64"),
    (pa.types.is_decimal, "NUMERIC"),
    (pa.types.is_boolean, "BOOL"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_string_view, "STRING"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_time, "TIME"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "DATETIME"),
    (pa.types.is_timestamp, "TIMESTAMP"),
)


_TAKES: Final[Mapping[str, Collection[str]]] = {
    "FLOAT64": ("INT64", "NUMERIC", "FLOAT64"),
    "NUMERIC": ("INT64", "NUMERIC"),
    "DATETIME": ("DATE", "DATETIME"),
}
"""The types that BigQuery converts to the type of a variable; other variables take their own type."""


def _literal(value: pa.Scalar, kind: str) -> str:
    """Return a value as SQL of BigQuery that keeps the value and its type."""
    if not value.is_valid:
        return f"CAST(NULL AS {kind})"
    if kind == "STRING":
        return _text_literal(str(value.as_py()))
    if kind == "BOOL":
        return str(value.as_py()).upper()
    if kind == "INT64":
        number = value.as_py()
        return str(number) if number >= 0 else f"({number})"  # in parentheses: `--1` would be a comment
    if kind == "TIMESTAMP":
        value = value.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.timestamp("us"))
        return f"CAST('{value.cast(pa.string())}+00:00' AS TIMESTAMP)"
    return f"CAST('{value.cast(pa.string())}' AS {kind})"


def _text_literal(text: str) -> str:
    for letter, written in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(letter, written)
    return f"'{text}'"
