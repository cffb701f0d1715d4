"""UPDATE and DELETE, read from their tokens."""

from collections.abc import Sequence
from itertools import pairwise

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.names import identifier, read_name, read_parts
from flightllm.sql.statement import Statement, StatementKind
from flightllm.sql.tokens import Token


def read_row_change(tokens: Sequence[Token], sql: str) -> Statement:
    """Return an UPDATE or DELETE; its `query` counts the rows that it changes.

    Raises:
        SqlError: a part is missing, or a column is set twice.
        UnsupportedError: it is about several tables, or DataFusion would change other rows than it says.
    """
    kind: StatementKind = "update" if tokens[0].is_word("update") else "delete"
    if kind == "delete" and not (len(tokens) > 1 and tokens[1].is_word("from")):
        raise SqlError("write DELETE FROM table [WHERE …]")
    target, start = read_name(tokens, 1 if kind == "update" else 2)
    _check_clauses(tokens[start - 1 :], kind.upper())
    where = _at_depth_0(tokens, start, "where")
    end = _at_depth_0(tokens, start, "set") if kind == "update" else where
    named = tokens[start:end]
    if len(named) > 2 or not all(map(identifier, named)) or (len(named) == 2 and not named[0].is_word("as")):
        raise UnsupportedError(f"{kind.upper()} changes one table: write {kind.upper()} name [AS alias] …")
    if kind == "update":
        _check_assignments(tokens[end:where])
    alias, condition = _text(tokens[start:end], sql), _text(tokens[where:], sql)
    text = _text(tokens, sql)
    if kind == "delete" and named:  # DataFusion reads the alias of a DELETE and forgets it
        text = f"DELETE FROM {target.sql} {_text(tokens[where:], sql, identifier(named[-1]), target.sql)}"
    return Statement(kind, text, query=f"SELECT count(*) FROM {target.sql} {alias} {condition}", target=target)


def _check_clauses(tokens: Sequence[Token], verb: str) -> None:
    """Refuse subqueries, where DataFusion drops the WHERE and changes every row, and LIMIT, which it ignores."""
    depth = 0
    for before, token in pairwise(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        clause = depth == 0 and token.is_word("limit", "returning", "using", "from", "order")
        if before.is_word("distinct"):
            clause = False
        if clause or token.is_word("select") or (before.is_symbol("(") and token.is_word("values", "with", "table")):
            word = "a subquery" if depth else token.text.upper()
            raise UnsupportedError(f"{verb} with {word} is not supported: write CREATE OR REPLACE TABLE … AS SELECT")


def _check_assignments(tokens: Sequence[Token]) -> None:
    """Raise `SqlError` where a column is set twice; DataFusion takes one of the values."""
    depth, columns = 0, set[str]()
    for index, token in enumerate(tokens):
        depth += sum(map(token.is_symbol, "([{")) - sum(map(token.is_symbol, ")]}"))
        if depth == 0 and (index == 0 or token.is_symbol(",")):
            column = read_parts(tokens, index + 1)[0][-1:]
            if columns.issuperset(column) and column:
                raise SqlError(f"UPDATE sets the column {column[0]!r} twice")
            columns.update(column)


def _at_depth_0(tokens: Sequence[Token], start: int, word: str) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0 and tokens[index].is_word(word):
            return index
    return len(tokens)


def _text(tokens: Sequence[Token], sql: str, alias: str | None = None, name: str = "") -> str:
    """Return tokens without comments, so that nobody can read them otherwise; `name` stands for a table's alias."""
    parts, end = [], 0
    for index, token in enumerate(tokens):
        parts.append(" " if token.start > end else "")
        aliased = alias is not None and identifier(token) == alias and _qualifies(tokens, index)
        parts.append(name if aliased else sql[token.start : token.end])
        end = token.end
    return "".join(parts)


def _qualifies(tokens: Sequence[Token], index: int) -> bool:
    """Tell whether a name is the first of several, as a table's before its column's."""
    after = tokens[index + 1 : index + 2]
    return bool(after) and after[0].is_symbol(".") and not (index and tokens[index - 1].is_symbol("."))
