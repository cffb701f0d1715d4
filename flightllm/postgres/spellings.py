"""Functions that PostgreSQL's clients call when they connect, and that mean something else to the engine."""

from collections.abc import Sequence

from flightllm.postgres.settings import VERSION
from flightllm.sql.tokens import Token

_VALUES = {"version": f"'{VERSION}'", "pg_advisory_unlock_all": "NULL"}


def spelled(text: str, tokens: Sequence[Token]) -> str:
    """Return a statement with the values of such functions: `SELECT version()` → `SELECT 'PostgreSQL …' AS version`."""
    if not any(name in text.lower() for name in _VALUES):
        return text
    parts, end = [], 0
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if not (token.is_word(*_VALUES) and _is_symbol(tokens, index + 1, "(") and _is_symbol(tokens, index + 2, ")")):
            continue
        first = index
        if _is_symbol(tokens, index - 1, "."):
            if not tokens[index - 2].is_word("pg_catalog"):
                continue
            first = index - 2
        after = tokens[index + 3] if index + 3 < len(tokens) else None
        item = first > 0 and (tokens[first - 1].is_word("select") or tokens[first - 1].is_symbol(","))
        named = item and (after is None or after.is_word("from") or after.is_symbol(",") or after.is_symbol(";"))
        top = sum(one.is_symbol("(") - one.is_symbol(")") for one in tokens[:first]) == 0
        parts += [text[end : tokens[first].start], _VALUES[name], f" AS {name}" if named and top else ""]
        end = tokens[index + 2].end
    return "".join([*parts, text[end:]])


def _is_symbol(tokens: Sequence[Token], index: int, text: str) -> bool:
    return 0 <= index < len(tokens) and tokens[index].is_symbol(text)
