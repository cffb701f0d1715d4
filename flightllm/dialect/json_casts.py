"""Write casts to json and jsonb: both check the text, and a jsonb has one form."""

from collections.abc import Iterator

from flightllm.dialect.json_operators import operand
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.types import end_of_cast_value
from flightllm.functions.jsonb import JSON, JSONB
from flightllm.sql.tokens import TokenKind

_CASTS = {"json": JSON, "jsonb": JSONB}
NAMES = frozenset(_CASTS)


def json_casts(source: Source) -> Iterator[Edit]:
    """Rewrite `'{"a":1}'::jsonb` as `__jsonb('{"a":1}')`; also CAST, and a type before a text."""
    for index, token in enumerate(source.tokens):
        name = _CASTS.get(token.text.lower()) if token.kind is TokenKind.WORD else None
        if name is None:
            continue
        if source.is_symbol(index - 1, "::") and not source.is_symbol(index + 1, "["):
            start = operand(source, index - 2)
            if start is not None:
                place = source.tokens[start].start
                yield Edit(place, place, f"{name}(")
                yield Edit(source.tokens[index - 1].start, token.end, ")")
        elif source.is_word(index - 1, "as") and source.is_symbol(index + 1, ")") and source.scopes.around[index]:
            opening = source.scopes.around[index] or 0
            if source.is_word(opening - 1, "cast") and end_of_cast_value(source, opening) == index - 1:
                yield Edit(source.tokens[opening - 1].start, source.tokens[opening].end, f"{name}(")
                yield Edit(source.tokens[index - 1].start, token.end, "")
        elif index + 1 < len(source.tokens) and source.tokens[index + 1].kind is TokenKind.STRING:
            literal = source.tokens[index + 1]
            yield Edit(token.start, literal.start, f"{name}(")
            yield Edit(literal.end, literal.end, ")")
