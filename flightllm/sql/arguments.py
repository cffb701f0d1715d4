"""Readers for the arguments of one call: token ranges, names, literals, plain column references."""

from collections.abc import Iterator, Mapping, Sequence

from flightllm.functions.base import Entries, Literal
from flightllm.functions.bind import Constant
from flightllm.sql.names import column_name, identifier
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis

_CONSTANTS: Mapping[str, Literal] = {"true": True, "false": False, "null": None}
_SIGNS: Mapping[str, int] = {"-": -1, "+": 1}
_CLOSING: Mapping[str, str] = {"[": "]", "(": ")"}
_CONSTRUCTORS: Mapping[str, str] = {
    "array": "[(",
    "make_array": "(",
    "map": "{(",
    "struct": "(",
    "row": "(",
    "named_struct": "(",
    "arrow_cast": "(",
}
"""Words that begin a constant, each with the opening brackets that can follow the word."""
_MOST_DEPTH = 8
"""The deepest nesting of constants. A list of examples whose answers are lists needs four levels."""


def split_arguments(
    tokens: Sequence[Token], start: int, end: int, closing: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the token ranges between the top-level commas of `tokens[start:end]`, empty ranges included."""
    if start == end:
        return
    first = index = start
    while index < end:
        if index in closing:
            index = closing[index]
        elif tokens[index].is_symbol(","):
            yield first, index
            first = index + 1
        index += 1
    yield first, end


def read_constant(tokens: Sequence[Token]) -> Constant | None:
    """Return the value of an argument that is a literal, else None.

    A literal is a text, a number, a boolean, NULL, or a list or entries of these. A bound negative value is in
    parentheses. A bound value whose type has no SQL literal is written as `arrow_cast(5, 'Int32')`.
    """
    if len(tokens) == 4 and tokens[0].is_symbol("(") and tokens[1].is_symbol("-") and tokens[3].is_symbol(")"):
        return read_constant(tokens[1:3])
    try:
        value, end = _value(tokens, 0, 0)
    except _NoConstantError:
        return None
    return Constant(value) if end == len(tokens) else None


def read_column(tokens: Sequence[Token]) -> str | None:
    """Return the column's name if the argument is a plain reference, as in `column`, `t.column`, `s.t."column"`.

    The dialect rule `using` writes a merged column as `"coalesce"(a.column, b.column)`, with quotes.
    """
    if _is_merged(tokens):
        return next(token.text for token in reversed(tokens) if token.kind is TokenKind.QUOTED)
    names = [identifier(token) for token in tokens[::2]]
    dotted = all(token.is_symbol(".") for token in tokens[1::2])
    plain = len(tokens) % 2 == 1 and dotted and None not in names
    last = names[-1] if names else None
    return None if not plain or last is None or tokens[-1].is_word(*_CONSTANTS) else column_name(last)


def _is_merged(tokens: Sequence[Token]) -> bool:
    """Return whether tokens are one call of `"coalesce"`, with quotes, on quoted names."""
    if len(tokens) < 4 or tokens[0].kind is not TokenKind.QUOTED or tokens[0].text != "coalesce":
        return False
    whole = tokens[1].is_symbol("(") and closing_parenthesis(tokens, 1) == len(tokens) - 1
    return whole and all(token.kind in {TokenKind.QUOTED, TokenKind.SYMBOL} for token in tokens)


def read_star(tokens: Sequence[Token]) -> str | None:
    """Return the last name of the qualifier of `t.*`, an empty text for `*`, None for anything else."""
    if not tokens or not tokens[-1].is_symbol("*"):
        return None
    if len(tokens) == 1:
        return ""
    return read_column(tokens[:-2]) if tokens[-2].is_symbol(".") else None


_NUMERIC = ("Int", "UInt", "Float", "Decimal")
"""The starts of the names of Arrow's numeric types. The value of an `Interval` is not a number."""


class _NoConstantError(Exception):
    """The signal that tokens do not form a constant."""


def _value(tokens: Sequence[Token], start: int, depth: int) -> tuple[Literal, int]:
    """Return the constant that begins at `start`, and the index after the constant."""
    if start >= len(tokens) or depth > _MOST_DEPTH:
        raise _NoConstantError
    token = tokens[start]
    following = tokens[start + 1] if start + 1 < len(tokens) else None
    if token.kind is TokenKind.STRING:
        return token.text, start + 1
    if (number := _read_number(tokens, start)) is not None:
        return number
    if token.is_word(*_CONSTANTS):
        return _CONSTANTS[token.text.lower()], start + 1
    if token.is_symbol("[") or (depth and token.is_symbol("(")):
        return _nested(tokens, start, depth)
    if token.is_symbol("{"):
        return _entries(tokens, start, depth)
    if following is not None and token.is_word(*_CONSTRUCTORS):
        return _constructed(tokens, start, depth)
    raise _NoConstantError


def _read_number(tokens: Sequence[Token], start: int) -> tuple[int | float, int] | None:
    """Return the number that begins at `start`, such as `5`, `-5` or `.5`, and the index after it.

    Return None where no number begins.
    """
    signed = tokens[start].kind is TokenKind.SYMBOL and tokens[start].text in _SIGNS
    at = start + signed
    pointed = _is(tokens, at, ".")
    at += pointed
    if at >= len(tokens) or tokens[at].kind is not TokenKind.NUMBER:
        return None
    value = _number(f"0.{tokens[at].text}" if pointed else tokens[at].text)
    return (_SIGNS[tokens[start].text] * value if signed else value), at + 1


def _constructed(tokens: Sequence[Token], start: int, depth: int) -> tuple[Literal, int]:
    """Read a constructor: `ARRAY[…]`, `struct(…)`, `MAP {…}`, `MAP([keys], [values])`, `arrow_cast(…)`.

    The reader also accepts Spark's `MAP(key, value, …)`.
    """
    word, bracket = tokens[start].text.lower(), start + 1
    if word == "map" and tokens[bracket].is_symbol("{"):
        return _entries(tokens, bracket, depth)
    if tokens[bracket].text not in _CONSTRUCTORS[word] or tokens[bracket].kind is not TokenKind.SYMBOL:
        raise _NoConstantError
    items, end = _items(tokens, bracket, depth)
    match word:
        case "arrow_cast":
            return _cast(items), end
        case "map":
            if len(items) == 2 and isinstance(items[0], tuple) and isinstance(items[1], tuple):
                return _paired(items[0], items[1]), end
            if any(not isinstance(key, str | int | float) for key in items[::2]):
                raise _NoConstantError
            return _paired(items[::2], items[1::2]), end
        case "named_struct":
            return _paired(items[::2], items[1::2]), end
        case _:
            return items, end


def _cast(items: Sequence[Literal]) -> Literal:
    """Return the value of `arrow_cast('5', 'Int32')`; a number's digits are a text, so that none gets lost."""
    if len(items) != 2:
        raise _NoConstantError
    value, kind = items[0], str(items[1])
    if not isinstance(value, str) or "Utf8" in kind:
        return value
    if not kind.startswith(_NUMERIC):
        raise _NoConstantError
    try:
        return int(value) if "Int" in kind else float(value)
    except ValueError:
        raise _NoConstantError from None


def _paired(keys: Sequence[Literal], values: Sequence[Literal]) -> Entries:
    if (entries := Entries.of(keys, values)) is None:
        raise _NoConstantError
    return entries


def _nested(tokens: Sequence[Token], start: int, depth: int) -> tuple[Literal, int]:
    """Read `[a, b]` or `(a, b)`; ignore parentheses around one value."""
    items, end = _items(tokens, start, depth)
    return (items[0] if tokens[start].is_symbol("(") and len(items) == 1 else items), end


def _items(tokens: Sequence[Token], start: int, depth: int) -> tuple[tuple[Literal, ...], int]:
    """Read the values between brackets."""
    closing = _CLOSING[tokens[start].text]
    found: list[Literal] = []
    at = start + 1
    while not _is(tokens, at, closing):
        if found:
            at = _after(tokens, at, ",")
        if at < len(tokens) and tokens[at].is_run:
            found.extend(map(_signed, tokens[at].text.split(",")))
            at += 1
            continue
        value, at = _value(tokens, at, depth + 1)
        found.append(value)
    return tuple(found), at + 1


def _signed(text: str) -> int | float:
    return -_number(text[1:]) if text.startswith("-") else _number(text)


def _entries(tokens: Sequence[Token], start: int, depth: int) -> tuple[Entries, int]:
    """Read `{'a': 1, b: 2}`."""
    found: list[tuple[str, Literal]] = []
    at = start + 1
    while not _is(tokens, at, "}"):
        if found:
            at = _after(tokens, at, ",")
        key, at = _key(tokens, at)
        value, at = _value(tokens, _after(tokens, at, ":"), depth + 1)
        found.append((key, value))
    return Entries(tuple(found)), at + 1


def _key(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    if _is(tokens, at, "-") and at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.NUMBER:
        return f"-{tokens[at + 1].text}", at + 2
    if at < len(tokens) and tokens[at].kind in {TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD, TokenKind.QUOTED}:
        return tokens[at].text, at + 1
    raise _NoConstantError


def _is(tokens: Sequence[Token], at: int, symbol: str) -> bool:
    return at < len(tokens) and tokens[at].is_symbol(symbol)


def _after(tokens: Sequence[Token], at: int, symbol: str) -> int:
    if not _is(tokens, at, symbol):
        raise _NoConstantError
    return at + 1


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
