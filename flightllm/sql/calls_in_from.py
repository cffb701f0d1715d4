"""Replace calls in FROM that return rows, such as `vector_search('idx', 'text') AS v`, by tables."""

from collections.abc import Callable, Sequence

from flightllm.sql.arguments import read_column
from flightllm.sql.parsed_text import ParsedText, mentions
from flightllm.sql.scopes import NO_ALIAS
from flightllm.sql.tokens import Token, TokenKind, tokenize

_QUERIES = ("select", "with", "values", "from")


def replace_calls(text: ParsedText, table: Callable[[int], str | None]) -> ParsedText:
    """Return SQL with calls in FROM replaced by tables; a table without an alias gets the name of its function.

    `table` returns the SQL of a table for the token of a function's name; None leaves the call as it is. The arguments
    of a replaced call are left out, so calls inside of them count for nothing.
    """
    sql, tokens, scopes = text.sql, text.tokens, text.scopes
    parts, start, after = list[str](), 0, -1
    for index, token in enumerate(tokens):
        closing = scopes.closing.get(index + 1)
        if index <= after or token.kind is not TokenKind.WORD or closing is None or not scopes.names_table[index]:
            continue
        found = table(index)
        if found is None:
            continue
        parts += [sql[start : token.start], found]
        if not _has_alias(tokens, closing + 1):
            parts.append(f" AS {token.text.lower()}")
        start, after = tokens[closing].end, closing
    return text.replaced("".join([*parts, sql[start:]])) if parts else text


def rows_as_sql(tokens: Sequence[Token]) -> str | None:
    """Return the query in parentheses that an argument stands for; None if it is SQL itself.

    The argument can be a text with a query, the name of a table, or `TABLE t`.
    """
    text = tokens[0].text.strip().rstrip(";") if len(tokens) == 1 and tokens[0].kind is TokenKind.STRING else None
    if text is not None:
        inner = tokenize(text)
        if inner and (inner[0].is_word(*_QUERIES) or inner[0].is_symbol("(")):
            return f"({_without_end(text, inner)}\n)"
        tokens = inner
    named = tokens[1:] if tokens and tokens[0].is_word("table") else tokens
    if len(named) > 2 and named[0].is_symbol("(") and named[-1].is_symbol(")") and len(named) < len(tokens):
        named = named[1:-1]
    if read_column(named) is None:
        return None if text is None else f"({_without_end(text, tokens)}\n)"
    return f"(SELECT * FROM {''.join(_name(token) for token in named)})"


def with_queries(text: ParsedText, index: int, rows: str) -> str:
    """Return a query in parentheses with the WITH of its statement up to a token, if it names a table of this WITH."""
    named = mentions(rows)
    earlier = [one for one in text.scopes.common_tables if one.start == 0 and one.end < index]
    if named.isdisjoint(one.name.lower() for one in earlier):
        return rows
    return f"({text.sql[: text.tokens[max(one.end for one in earlier)].end]} {rows})"


def _without_end(text: str, tokens: Sequence[Token]) -> str:
    """Return a text without the `;` at its end; a comment can follow it."""
    ended = next((at for at in range(len(tokens), 0, -1) if not tokens[at - 1].is_symbol(";")), 0)
    return text if ended == len(tokens) or not ended else text[: tokens[ended - 1].end]


def _name(token: Token) -> str:
    return '"' + token.text.replace('"', '""') + '"' if token.kind is TokenKind.QUOTED else token.text


def _has_alias(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the token after a table is its alias, or the word AS."""
    if index >= len(tokens):
        return False
    token = tokens[index]
    return token.kind is TokenKind.QUOTED or (token.kind is TokenKind.WORD and not token.is_word(*NO_ALIAS))
