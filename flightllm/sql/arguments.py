"""The arguments of one call: token ranges, names, literals, plain column references."""

from collections.abc import Iterator, Mapping, Sequence

from flightllm.functions.base import Literal
from flightllm.functions.bind import Constant
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Kind, Token

_CONSTANTS: Mapping[str, Literal] = {"true": True, "false": False, "null": None}


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
    """Return the value of an argument that is a literal: text, number, boolean, NULL or a list of texts.

    A bound number or text of a type that SQL has no literals of comes as `arrow_cast(5, 'Int32')`.
    """
    if len(tokens) > 5 and tokens[0].is_word("arrow_cast") and tokens[-3].is_symbol(","):
        cast = read_constant(tokens[2:-3])
        text = cast is not None and isinstance(cast.value, str) and "Utf8" not in tokens[-2].text
        return None if text else cast
    if len(tokens) == 1:
        return _single(tokens[0])
    if len(tokens) == 2 and tokens[0].kind is Kind.SYMBOL and tokens[1].kind is Kind.NUMBER:
        sign = {"-": -1, "+": 1}.get(tokens[0].text)
        return None if sign is None else Constant(sign * _number(tokens[1].text))
    return _list(tokens)


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


def _single(token: Token) -> Constant | None:
    if token.kind is Kind.STRING:
        return Constant(token.text)
    if token.kind is Kind.NUMBER:
        return Constant(_number(token.text))
    if token.is_word(*_CONSTANTS):
        return Constant(_CONSTANTS[token.text.lower()])
    return None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _list(tokens: Sequence[Token]) -> Constant | None:
    """Read `['a', 'b']`, `ARRAY['a', 'b']` or `make_array('a', 'b')`."""
    if tokens and tokens[0].is_word("array"):
        inner = _between(tokens[1:], "[", "]")
    elif tokens and tokens[0].is_word("make_array"):
        inner = _between(tokens[1:], "(", ")")
    else:
        inner = _between(tokens, "[", "]")
    if inner is None:
        return None
    texts, commas = inner[::2], inner[1::2]
    if len(inner) % 2 == 0 and inner:
        return None
    if all(token.kind is Kind.STRING for token in texts) and all(token.is_symbol(",") for token in commas):
        return Constant(tuple(token.text for token in texts))
    return None


def _between(tokens: Sequence[Token], left: str, right: str) -> Sequence[Token] | None:
    if len(tokens) >= 2 and tokens[0].is_symbol(left) and tokens[-1].is_symbol(right):
        return tokens[1:-1]
    return None
