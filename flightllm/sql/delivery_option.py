"""The option `WITH (delivery = 'batch')` of one statement, after its query or before AS."""

import re
from collections.abc import Sequence
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, position, tokenize

_OPTION: Final = "delivery"
_STATEMENTS: Final = ("select", "with", "values", "insert", "create", "explain", "from", "table")
_CHANGES: Final = ("update", "delete", "merge")
_EXPLAIN: Final = (
    *("explain", "analyze", "verbose", "format", "text", "tree", "json", "pgjson", "graphviz", "indent", "costs"),
    *("buffers", "timing", "summary", "settings", "wal", "on", "off", "true", "false"),
)
"""The words of EXPLAIN and of its options."""
_HINTS: Final = ("index", "forceseek")
"""Options of tables in SQL Server, which have no effect here."""
_MAYBE: Final = re.compile(r"delivery|\bwith\s*\(\s*\w+\s*=", re.IGNORECASE)
_USAGE: Final = "write WITH (delivery = 'batch') at the end of the statement, or before the AS of CREATE TABLE"
_WHOLE: Final = re.compile(
    r"\bwith\s*+\(\s*+delivery\s*+=\s*+(?P<quote>['\"]?)(?P<value>\w++)(?P=quote)\s*+\)(?=\s*+;?\s*+\Z|\s++as\b)",
    re.IGNORECASE,
)
"""A whole option in its place, without comments."""


def without_delivery(sql: str) -> tuple[str, str | None]:
    """Return a statement without its option, and the value of the option or None.

    Spaces take the option's place, so positions in errors stay. Example: `INSERT INTO t SELECT … WITH (delivery =
    'batch')` returns the text up to WITH, and `batch`.

    Raises:
        SqlError: the option has a wrong form or name, or the statement cannot wait.
    """
    if _MAYBE.search(sql) is None:
        return sql, None
    try:
        tokens = tokenize(sql)
    except SqlError:  # the quotes of another dialect, which nobody has read yet
        return _of_other_quotes(sql)
    words = (token for token in tokens if token.kind is TokenKind.WORD)
    first = next((token for token in words if not token.is_word(*_EXPLAIN)), None)
    if first is None or not first.is_word(*_STATEMENTS, *_CHANGES):
        return sql, None
    depth = 0
    for at, token in enumerate(tokens):
        if not depth and token.is_word("with") and _begins_option(tokens, at):
            if not tokens[at + 2].is_word(_OPTION):
                if first.is_word("create") or tokens[at + 2].is_word(*_HINTS):
                    continue  # CREATE checks its own options
                where = position(sql, tokens[at + 2].start)
                raise SqlError(f"WITH has no option {tokens[at + 2].text!r}, at {where}: {_USAGE}")
            _check_kind(sql, tokens, at, first)
            end = _end(sql, tokens, at)
            gap = " " * (tokens[end].end - token.start)
            return f"{sql[: token.start]}{gap}{sql[tokens[end].end :]}", tokens[at + 4].text
        depth += token.is_symbol("(") - token.is_symbol(")")
    return sql, None


def _of_other_quotes(sql: str) -> tuple[str, str | None]:
    """Return what `without_delivery` does, for a text that the tokenizer cannot read."""
    found = _WHOLE.search(sql)
    if found is None or not sql.lstrip("( \t\r\n").lower().startswith(_STATEMENTS):
        return sql, None
    gap = " " * (found.end() - found.start())
    return f"{sql[: found.start()]}{gap}{sql[found.end() :]}", found["value"]


def _begins_option(tokens: Sequence[Token], at: int) -> bool:
    following = tokens[at + 1 : at + 4]
    return (
        len(following) == 3
        and following[0].is_symbol("(")
        and following[1].kind is TokenKind.WORD
        and following[2].is_symbol("=")
    )


def _check_kind(sql: str, tokens: Sequence[Token], at: int, first: Token) -> None:
    """Check that a statement can wait.

    Raises:
        SqlError: the statement changes rows, or keeps a query that others run.
    """
    where = position(sql, tokens[at].start)
    if first.is_word(*_CHANGES):
        raise SqlError(
            f"WITH ({_OPTION} = …) at {where}: {first.text.upper()} cannot wait: keep the answers by CREATE TABLE …"
            " AS SELECT first"
        )
    if first.is_word("create") and any(token.is_word("view") for token in _before_as(tokens[:at])):
        raise SqlError(
            f"WITH ({_OPTION} = …) at {where}: a view keeps no delivery: write the option in the statements that read"
            " the view"
        )


def _before_as(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens before the name of what a statement creates ends: before AS or a parenthesis."""
    ends = (at for at, token in enumerate(tokens) if token.is_word("as") or token.is_symbol("("))
    return tokens[: next(ends, len(tokens))]


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
