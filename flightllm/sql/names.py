"""Parser for names of tables in SQL: unquoted parts fold to lower case, quoted parts stay exact."""

from collections.abc import Sequence

from flightllm.common.names import TableName, quoted, table_name
from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis, tokenize


def identifier(token: Token) -> str | None:
    """Return the name that a token means, or None if the token is not an identifier."""
    if token.kind is TokenKind.QUOTED:
        return token.text
    return token.text.lower() if token.kind is TokenKind.WORD else None


def with_name(tokens: Sequence[Token], index: int) -> str | None:
    """Return the name of the WITH query whose text the parenthesis at `index` opens, or None for other text."""
    at = index - 1
    while at > 0 and tokens[at].is_word("materialized", "not"):
        at -= 1
    if at < 1 or not tokens[at].is_word("as"):
        return None
    at -= 1
    if tokens[at].is_symbol(")"):
        while at > 0 and not tokens[at].is_symbol("("):
            at -= 1
        at -= 1
    return identifier(tokens[at]) if at >= 0 else None


def read_parts(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name that begins at the token `start`, as in `a.b.c`, and the index after the name.

    If no name begins there, the tuple of parts is empty.
    """
    parts: list[str] = []
    index = start
    while index < len(tokens) and (part := identifier(tokens[index])) is not None:
        parts.append(part)
        index += 1
        if index >= len(tokens) or not tokens[index].is_symbol("."):
            break
        index += 1
    return tuple(parts), index


def read_name(tokens: Sequence[Token], start: int) -> tuple[TableName, int]:
    """Return the table name that begins at the token `start`, and the index after the name.

    Raises:
        SqlError: no name begins there, or the name is in another catalog.
    """
    parts, after = read_parts(tokens, start)
    return table_name(parts), after


def read_column_names(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Return the names in a list such as `(a, "B")`, and the index after the list.

    Without a list, or where a query in parentheses follows, there are no names.

    Raises:
        SqlError: the list holds more than names.
    """
    if start + 1 >= len(tokens) or not tokens[start].is_symbol("(") or tokens[start + 1].is_symbol("("):
        return (), start
    if tokens[start + 1].is_word("select", "with", "values"):
        return (), start
    end = closing_parenthesis(tokens, start)
    names = [identifier(token) for token in tokens[start + 1 : end] if not token.is_symbol(",")]
    known = tuple(name for name in names if name is not None)
    if not names or len(known) < len(names) or len(names) * 2 - 1 != end - start - 1:
        raise SqlError("a list of column names was expected: (a, b, …)")
    return known, end + 1


def parse_name(text: str) -> TableName:
    """Return the table that SQL text such as `movies`, `x."Movies"` or `flightllm.public.movies` means.

    Raises:
        SqlError: the text is not a table name.
    """
    tokens = tokenize(text)
    name, after = read_name(tokens, 0)
    if after != len(tokens) or tokens[-1].is_symbol("."):
        raise SqlError(f"{text!r} is not a table name; quote a name with special characters: {quoted(text)}")
    return name
