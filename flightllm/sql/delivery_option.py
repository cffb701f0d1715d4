"""The option `WITH (delivery = 'batch')` of one statement, after its query or before AS."""

from collections.abc import Sequence
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, position, tokenize

_OPTION: Final = "delivery"
_STATEMENTS: Final = ("select", "with", "values", "insert", "create", "explain", "from", "table")
_USAGE: Final = "write WITH (delivery = 'batch') at the end of the statement, or before the AS of CREATE TABLE"


def without_delivery(sql: str) -> tuple[str, str | None]:
    """Return a statement without its option, and the value of the option or None.

    Spaces take the option's place, so positions in errors stay. Example: `INSERT INTO t SELECT … WITH (delivery =
    'batch')` returns the text up to WITH, and `batch`.

    Raises:
        SqlError: the option has a wrong form.
    """
    tokens = tokenize(sql)
    first = next((token for token in tokens if not token.is_symbol("(")), None)
    if first is None or not first.is_word(*_STATEMENTS):
        return sql, None
    depth = 0
    for at, token in enumerate(tokens):
        if not depth and token.is_word("with") and _begins_option(tokens, at):
            end = _end(sql, tokens, at)
            gap = " " * (tokens[end].end - token.start)
            return f"{sql[: token.start]}{gap}{sql[tokens[end].end :]}", tokens[at + 4].text
        depth += token.is_symbol("(") - token.is_symbol(")")
    return sql, None


def _begins_option(tokens: Sequence[Token], at: int) -> bool:
    following = tokens[at + 1 : at + 4]
    return (
        len(following) == 3
        and following[0].is_symbol("(")
        and following[1].is_word(_OPTION)
        and following[2].is_symbol("=")
    )


def _end(sql: str, tokens: Sequence[Token], at: int) -> int:
    """Return the index of the parenthesis that closes the option.

    Raises:
        SqlError: the option has a wrong form, or another place in the statement.
    """
    where = position(sql, tokens[at].start)
    value, closing, after = (tokens[n] if n < len(tokens) else None for n in (at + 4, at + 5, at + 6))
    kinds = (TokenKind.STRING, TokenKind.QUOTED, TokenKind.WORD)
    if value is None or value.kind not in kinds or closing is None or not closing.is_symbol(")"):
        raise SqlError(f"WITH at {where}: {_OPTION} is 'batch' or 'immediate', and the only option: {_USAGE}")
    if after is not None and not after.is_symbol(";") and not after.is_word("as"):
        raise SqlError(f"WITH ({_OPTION} = …) at {where}: text follows it: {_USAGE}")
    return at + 5
