"""Rewrite pgvector's operators of distances, and its casts to vectors."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.json_operators import operand
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit, Rewritten
from flightllm.errors import UnsupportedError
from flightllm.sql.tokens import TokenKind, position

_DISTANCES: Mapping[str, str] = MappingProxyType({"<=>": "cosine_distance", "<->": "array_distance"})
"""The operators of pgvector, and the functions with the same values."""
_BESIDE = ("+", "-", "*", "/", "%", "^", "||", "->", "->>", *_DISTANCES)
"""Operators that can take an operand away from a distance."""
_NUMBERS = re.compile(r"\s*\[\s*-?[\d.]+(?:[eE][-+]?\d+)?(?:\s*,\s*-?[\d.]+(?:[eE][-+]?\d+)?)*\s*\]\s*")
"""The text of a vector."""
_STARTS = (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING, TokenKind.PLACEHOLDER)
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def distances(plain: Rewritten, source: Source) -> Iterator[Edit]:
    """Rewrite `e <=> ai_embed('x')::vector` as `cosine_distance(e, ai_embed('x'))`.

    A cast to a vector is left out after a call that makes an embedding, and in a distance.

    Raises:
        UnsupportedError: the operands are not plain values, so that PostgreSQL can read them otherwise.
    """
    for index, token in enumerate(source.tokens):
        if _is_vector_cast(source, index):
            yield from _without_cast(source, index)
        elif token.kind is TokenKind.SYMBOL and token.text in _DISTANCES:
            first, after = operand(source, index - 1), _after(source, index + 1)
            if first is None or after is None or _is_beside(source, first - 1) or _is_beside(source, after):
                place = position(plain.sent, plain.sent_at(token.start))
                line = f"{_DISTANCES[token.text]}(a, b)"
                raise UnsupportedError(f"{token.text} at {place} does not measure a distance here: write {line}")
            start, end = source.tokens[first].start, source.tokens[after - 1].end
            yield Edit(start, start, f"{_DISTANCES[token.text]}(")
            yield Edit(token.start, token.end, ",")
            yield Edit(end, end, ")")
            for at in {first, after - 1} & {index - 1, index + 1}:
                if _is_vector_text(source, at):
                    yield _listed(source, at, source.tokens[at].end)


def _is_beside(source: Source, index: int) -> bool:
    return any(source.is_symbol(index, symbol) for symbol in _BESIDE)


def _after(source: Source, index: int) -> int | None:
    """Return the token after a name, literal, call or brackets, and after casts; None for another text."""
    if index >= len(source.tokens):
        return None
    if source.is_symbol(index, "("):
        at = source.closing[index] + 1
    elif source.tokens[index].kind in _STARTS:
        at = index + 1
    else:
        return None
    while at < len(source.tokens):
        if source.is_symbol(at, ".") and at + 1 < len(source.tokens):
            at += 2
        elif at in source.closing and (source.is_symbol(at, "[") or _can_call(source, at - 1)):
            at = source.closing[at] + 1
        elif source.is_symbol(at, "::"):
            at += 2
        else:
            break
    return at


def _can_call(source: Source, index: int) -> bool:
    return source.is_symbol(index + 1, "(") and source.tokens[index].kind in _NAMES


def _is_vector_cast(source: Source, index: int) -> bool:
    return source.is_symbol(index, "::") and source.is_word(index + 1, "vector", "halfvec")


def _without_cast(source: Source, index: int) -> Iterator[Edit]:
    """Leave out a cast of an embedding; write the text of a vector as a list."""
    sized = source.is_symbol(index + 2, "(")
    after = source.closing[index + 2] + 1 if sized else index + 2
    end = source.tokens[after - 1].end
    if _is_vector_text(source, index - 1):
        yield _listed(source, index - 1, end)
    elif _embeds(source, index - 1) or _measured(source, index, after):
        yield Edit(source.tokens[index].start, end, "")


def _is_vector_text(source: Source, index: int) -> bool:
    token = source.tokens[index]
    return token.kind is TokenKind.STRING and _NUMBERS.fullmatch(token.text) is not None


def _listed(source: Source, index: int, end: int) -> Edit:
    token = source.tokens[index]
    return Edit(token.start, end, f"ARRAY{token.text.strip()}")


def _embeds(source: Source, closing: int) -> bool:
    """Return whether a call that makes an embedding ends at a token."""
    opening = source.scopes.opening.get(closing)
    if opening is None or not opening or not source.is_symbol(closing, ")"):
        return False
    before = source.tokens[opening - 1]
    return before.kind is TokenKind.WORD and "embed" in before.text.lower()


def _measured(source: Source, index: int, after: int) -> bool:
    """Return whether a cast of a name belongs to a distance."""
    first = operand(source, index - 1)
    if first is None or source.tokens[index - 1].kind not in _NAMES:
        return False
    return any(source.is_symbol(at, symbol) for at in (first - 1, after) for symbol in _DISTANCES)
