"""Refuse a column in double quotes where they enclose texts: without an error, its rows would be wrong."""

from flightllm.dialect.relations import Relations
from flightllm.dialect.source import Source
from flightllm.dialect.text import Rewritten
from flightllm.errors import SqlError
from flightllm.sql.tokens import TokenKind, position

_TEXTS = ("bigquery", "databricks", "spark")
"""Dialects in which double quotes enclose a text."""
_KEYS = ("select", "group", "order", "partition")
"""Clauses in which nobody means a text without an alias."""
_CONDITIONS = ("where", "having", "qualify", "on")
_COMPARISONS = ("=", "<", ">", "<=", ">=", "<>", "!=")
_TESTS = ("in", "is", "like", "between", "not")
_BEFORE = ("select", "distinct", "by", "where", "having", "qualify", "on", "and", "or", "not")
_AFTER_KEY = ("from", "asc", "desc", "nulls", "limit", "order", "having", "qualify", "union")


def check_quoted_columns(plain: Rewritten, source: Source, dialect: str) -> None:
    """Raise `SqlError` for `SELECT "reviewId" FROM t` in a dialect that reads a text there, if `t` has this column.

    `source` is the text after `plain_texts`. A text that is compared with a column, or that has an alias, stays.
    """
    if dialect not in _TEXTS or '"' not in plain.sent:
        return
    relations: Relations | None = None
    for index, token in enumerate(source.tokens):
        if token.kind is not TokenKind.STRING or not _is_operand(source, index):
            continue
        start = plain.sent_at(token.start)
        if plain.sent[start] != '"':
            continue
        relations = relations or Relations(source, source.columns_of)
        columns = {name.casefold(): name for scope in relations.scopes(index) for name in relations.of_scope(scope)}
        if (name := columns.get(token.text.casefold())) is not None:
            raise SqlError(
                f'"{token.text}" at {position(plain.sent, start)} is a text in {dialect}, and no column: write'
                f" `{name}` in backticks for the column, or '{token.text}' AS a name for the text"
            )


def _is_operand(source: Source, index: int) -> bool:
    """Return whether a text is a whole item or key, or the left side of a comparison."""
    if not (source.is_word(index - 1, *_BEFORE) or source.is_symbol(index - 1, ",")):
        return False
    clause = source.scopes.clauses[index]
    after = source.tokens[index + 1] if index + 1 < len(source.tokens) else None
    if clause in _KEYS:
        return after is None or after.text in {",", ")", ";"} or after.is_word(*_AFTER_KEY)
    return clause in _CONDITIONS and after is not None and (after.text in _COMPARISONS or after.is_word(*_TESTS))
