"""The arguments of one call: token ranges, names, literals, plain column references."""

from collections.abc import Iterator, Mapping, Sequence

from flightllm.functions.base import Entries, Literal
from flightllm.functions.bind import Constant
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Kind, Token

_CONSTANTS: Mapping[str, Literal] = {"true": True, "false": False, "null": None}
_SIGNS: Mapping[str, int] = {"-": -1, "+": 1}
_CLOSING: Mapping[str, str] = {"[": "]", "(": ")"}
_CONSTRUCTORS: Mapping[str, str] = {"array": "[", "make_array": "(", "map": "{", "struct": "(", "named_struct": "("}
"""Words that begin a list or entries, each with the bracket that must follow."""
_MOST_DEPTH = 8
"""How deep constants can be nested: examples in a list, with lists as their answers, need four."""


def split_arguments(
    tokens: Sequence[Token], start: int, end: int, closing: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the token ranges between the commas of `tokens[start:end]` that are in no bracket; an empty range too."""
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
    """Return the value of an argument that is a literal: text, number, boolean, NULL, or a list or entries of these.

    A bound number or text of a type that SQL has no literals of comes as `arrow_cast(5, 'Int32')`.
    """
    if len(tokens) > 5 and tokens[0].is_word("arrow_cast") and tokens[-3].is_symbol(","):
        cast = read_constant(tokens[2:-3])
        text = cast is not None and isinstance(cast.value, str) and "Utf8" not in tokens[-2].text
        return None if text else cast
    try:
        value, end = _value(tokens, 0, 0)
    except _NoConstantError:
        return None
    return Constant(value) if end == len(tokens) else None


def read_column(tokens: Sequence[Token]) -> str | None:
    """Return the column's name if the argument is a plain reference: `column`, `t.column`, `s.t."column"`."""
    names = [identifier(token) for token in tokens[::2]]
    dotted = all(token.is_symbol(".") for token in tokens[1::2])
    plain = len(tokens) % 2 == 1 and dotted and None not in names
    return None if not plain or tokens[-1].is_word(*_CONSTANTS) else names[-1]


def read_star(tokens: Sequence[Token]) -> str | None:
    """Return the qualifier of `t.*` (the last name of it), an empty text for `*`, None for anything else."""
    if not tokens or not tokens[-1].is_symbol("*"):
        return None
    if len(tokens) == 1:
        return ""
    return read_column(tokens[:-2]) if tokens[-2].is_symbol(".") else None


class _NoConstantError(Exception):
    """Tokens are no constant."""


def _value(tokens: Sequence[Token], start: int, depth: int) -> tuple[Literal, int]:
    """Read the constant that begins at `start`; return it and where it ends."""
    if start >= len(tokens) or depth > _MOST_DEPTH:
        raise _NoConstantError
    token = tokens[start]
    following = tokens[start + 1] if start + 1 < len(tokens) else None
    if token.kind is Kind.STRING:
        return token.text, start + 1
    if token.kind is Kind.NUMBER:
        return _number(token.text), start + 1
    if token.is_word(*_CONSTANTS):
        return _CONSTANTS[token.text.lower()], start + 1
    if token.kind is Kind.SYMBOL and token.text in _SIGNS and following is not None and following.kind is Kind.NUMBER:
        return _SIGNS[token.text] * _number(following.text), start + 2
    if token.is_symbol("[") or (depth and token.is_symbol("(")):
        return _items(tokens, start, depth)
    if token.is_symbol("{"):
        return _entries(tokens, start, depth)
    if (
        following is not None
        and token.is_word(*_CONSTRUCTORS)
        and following.is_symbol(_CONSTRUCTORS[token.text.lower()])
    ):
        if token.is_word("named_struct"):
            items, end = _items(tokens, start + 1, depth)
            return Entries(tuple(zip(map(str, items[::2]), items[1::2], strict=False))), end
        return _entries(tokens, start + 1, depth) if token.is_word("map") else _items(tokens, start + 1, depth)
    raise _NoConstantError


def _items(tokens: Sequence[Token], start: int, depth: int) -> tuple[tuple[Literal, ...], int]:
    """Read `[a, b]` or `(a, b)`."""
    closing = _CLOSING[tokens[start].text]
    found: list[Literal] = []
    at = start + 1
    while not _is(tokens, at, closing):
        if found:
            at = _after(tokens, at, ",")
        value, at = _value(tokens, at, depth + 1)
        found.append(value)
    if closing == ")" and len(found) == 1 and not _is_call(tokens, start):
        raise _NoConstantError  # parentheses around one value
    return tuple(found), at + 1


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
    if _is(tokens, at, "-") and at + 1 < len(tokens) and tokens[at + 1].kind is Kind.NUMBER:
        return f"-{tokens[at + 1].text}", at + 2
    if at < len(tokens) and tokens[at].kind in {Kind.STRING, Kind.NUMBER, Kind.WORD, Kind.QUOTED}:
        return tokens[at].text, at + 1
    raise _NoConstantError


def _is(tokens: Sequence[Token], at: int, symbol: str) -> bool:
    return at < len(tokens) and tokens[at].is_symbol(symbol)


def _is_call(tokens: Sequence[Token], bracket: int) -> bool:
    return bracket > 0 and tokens[bracket - 1].kind is Kind.WORD


def _after(tokens: Sequence[Token], at: int, symbol: str) -> int:
    if not _is(tokens, at, symbol):
        raise _NoConstantError
    return at + 1


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
