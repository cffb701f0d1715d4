"""Parser for UPDATE, DELETE and MERGE, and for ON CONFLICT and RETURNING of INSERT."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flightllm.common.names import TableName, quoted
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.names import identifier, read_name, read_parts
from flightllm.sql.row_change import Action, Conflict, RowChange, Rows
from flightllm.sql.statement import Statement, StatementKind
from flightllm.sql.tokens import Token, closing_parenthesis

_WHENS = (
    "write MERGE INTO table USING source ON condition WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN UPDATE SET …"
    " | DELETE | INSERT [(columns)] VALUES (…) | DO NOTHING"
)
_CONFLICT = "write ON CONFLICT [(columns)] DO NOTHING, or ON CONFLICT (columns) DO UPDATE SET … [WHERE …]"
_SUBQUERY_WORDS = ("values", "with", "table")
_AFTER_TARGET = ("set", "where", "as", "using", "returning")
"""Words after a table to change: an `only` before one of them is the table's name."""


def read_row_change(tokens: Sequence[Token], sql: str, common: str = "") -> Statement:
    """Return an UPDATE or DELETE; if the statement is simple, its `query` counts the rows that it changes.

    `common` are the WITH queries before the statement.

    Raises:
        SqlError: a part is missing, or the statement sets a column twice.
        UnsupportedError: the statement has LIMIT or ORDER BY.
    """
    kind: StatementKind = "update" if tokens[0].is_word("update") else "delete"
    if kind == "delete" and not (len(tokens) > 1 and tokens[1].is_word("from")):
        raise SqlError("write DELETE FROM table [USING …] [WHERE …] [RETURNING …]")
    start = 1 if kind == "update" else 2
    tokens = _without_only(tokens, start)
    target, start = read_name(tokens, start)
    parts = _Parts(tokens, start, sql)
    clauses = find_clauses(tokens, 0, start)
    named, tables, where, returning = clauses.assigned, clauses.tables, clauses.where, clauses.returning
    _check_clauses(tokens, start, returning, kind.upper())
    alias = _alias(tokens[start:named], target, kind.upper())
    values: tuple[tuple[str, str | None], ...] = ()
    if kind == "update":
        if named == tables:
            raise SqlError("write UPDATE table SET column = value, … [FROM …] [WHERE …] [RETURNING …]")
        values = _assignments(tokens[named + 1 : tables], sql, (alias, target.name))
    together = any(part and part[0].is_symbol("(") for part in split_list(tokens[named + 1 : tables]))
    change = RowChange(
        alias,
        common,
        parts.text(tables + 1, where),
        parts.text(where + 1, returning),
        (Action("update" if kind == "update" else "delete", values=values),),
        returning=parts.text(returning + 1, len(tokens)),
        simple=not (common or together)
        and tables == where
        and returning == len(tokens)
        and _is_simple(tokens, start, values),
    )
    _check_given(tokens, (tables, where, returning, len(tokens)))
    if not change.simple:
        return Statement(kind, f"{common} {_text(tokens, sql)}".strip(), target=target, change=change)
    condition = _text(tokens[where:], sql)
    named_as = _text(tokens[start:named], sql)
    text = _text(tokens, sql)
    if kind == "delete" and named > start:  # DataFusion parses the alias of a DELETE but then ignores it
        text = f"DELETE FROM {target.sql} {_text(tokens[where:], sql, alias, target.sql)}"
    query = f"SELECT count(*) FROM {target.sql} {named_as} {condition}"
    return Statement(kind, text, query=query, target=target, change=change)


@dataclass(frozen=True, slots=True)
class Clauses:
    """The tokens at which the clauses of an UPDATE or DELETE begin; a missing clause begins where the next one does."""

    assigned: int
    """SET."""
    tables: int
    """FROM of an UPDATE, USING of a DELETE."""
    where: int
    returning: int

    def values(self, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
        """Yield the token ranges of the new values: `1` and `(2, 3)` in `SET a = 1, (b, c) = (2, 3)`."""
        first = self.assigned + 1
        for part in split_list(tokens[first : self.tables]):
            last = first + len(part)
            value = next((at for at in outside(tokens, first, last) if tokens[at].is_symbol("=")), last) + 1
            if value < last:
                yield value, last
            first = last + 1


def find_clauses(tokens: Sequence[Token], verb: int, start: int) -> Clauses:
    """Return where the clauses of the UPDATE or DELETE whose verb is at a token begin, after its table's name."""
    parts, updates = _Parts(tokens, start, ""), tokens[verb].is_word("update")
    returning = parts.at("returning")
    where = parts.at("where", end=returning)
    tables = parts.at("from" if updates else "using", end=where)
    return Clauses(parts.at("set", end=tables) if updates else tables, tables, where, returning)


def _without_only(tokens: Sequence[Token], start: int) -> Sequence[Token]:
    """Return the tokens without the ONLY of `ONLY t` or `ONLY (t)`: no table inherits from another one."""
    if start >= len(tokens) - 1 or not tokens[start].is_word("only"):
        return tokens
    following = tokens[start + 1]
    if following.is_symbol("("):
        names, after = read_parts(tokens, start + 2)
        if names and after < len(tokens) and tokens[after].is_symbol(")"):
            return [*tokens[:start], *tokens[start + 2 : after], *tokens[after + 1 :]]
    elif identifier(following) is not None and not following.is_word(*_AFTER_TARGET):
        return [*tokens[:start], *tokens[start + 1 :]]
    return tokens


def read_merge(tokens: Sequence[Token], sql: str, common: str = "") -> Statement:
    """Return a MERGE statement.

    Raises:
        SqlError: a part is missing or cannot be read.
    """
    named = 2 if len(tokens) > 1 and tokens[1].is_word("into") else 1
    target, start = read_name(tokens, named)
    parts = _Parts(tokens, start, sql)
    using = parts.at("using")
    alias = _alias(tokens[start:using], target, "MERGE INTO")
    returning = parts.at("returning", start=using)
    whens = list(parts.all("when", using, returning))
    on = parts.at_last("on", using, whens[0] if whens else returning)
    if not whens or not using < on < whens[0]:
        raise SqlError(_WHENS)
    ends = [*whens[1:], returning]
    actions = tuple(_when(tokens[first:end], sql) for first, end in zip(whens, ends, strict=True))
    for index, (_, later) in enumerate(pairwise(actions)):
        if any(a.rows == later.rows and not a.condition for a in actions[: index + 1]):
            raise SqlError("a WHEN never runs after a WHEN of the same kind without a condition: swap the two")
    source, condition = parts.text(using + 1, on), parts.text(on + 1, whens[0])
    if not source or not condition or (returning + 1 == len(tokens)):
        raise SqlError(_WHENS)
    change = RowChange(
        alias, common, source, condition, actions, returning=parts.text(returning + 1, len(tokens)), merged=True
    )
    return Statement("merge", f"{common} {_text(tokens, sql)}".strip(), target=target, change=change)


def read_insert_tail(tokens: Sequence[Token], sql: str, alias: str) -> tuple[int, RowChange | None]:
    """Return the index after the rows of an INSERT, and the ON CONFLICT and RETURNING that follow, if any.

    Raises:
        SqlError: a part is missing or cannot be read.
    """
    parts = _Parts(tokens, 0, sql)
    returning = parts.at("returning")
    on = next((i for i in parts.all("on", 0, returning) if i + 1 < returning and tokens[i + 1].is_word("conflict")), -1)
    if on < 0 and returning == len(tokens):
        return len(tokens), None
    if returning + 1 == len(tokens):
        raise SqlError("nothing follows RETURNING in INSERT: write RETURNING column, … or RETURNING *")
    conflict = _conflict(tokens[on:returning], sql) if on >= 0 else None
    change = RowChange(alias, conflict=conflict, returning=parts.text(returning + 1, len(tokens)))
    return on if on >= 0 else returning, change


def _conflict(tokens: Sequence[Token], sql: str) -> Conflict:
    """Read `ON CONFLICT (a, b) DO …`."""
    at, columns = 2, tuple[str, ...]()
    if at < len(tokens) and tokens[at].is_symbol("("):
        end = next((i for i in range(at, len(tokens)) if tokens[i].is_symbol(")")), len(tokens) - 1)
        names = [identifier(token) for token in tokens[at + 1 : end] if not token.is_symbol(",")]
        if not names or None in names or len(names) * 2 - 1 != end - at - 1:
            raise SqlError(f"ON CONFLICT takes names of columns: {_CONFLICT}")
        columns, at = tuple(name for name in names if name is not None), end + 1
    words = [token.text.lower() for token in tokens[at : at + 2]]
    if words in (["on", "constraint"], ["where", *words[1:]]):
        raise UnsupportedError(f"ON CONFLICT names the columns of a key, not a constraint or a condition: {_CONFLICT}")
    rest = tokens[at + 2 :]
    if words == ["do", "nothing"] and not rest:
        return Conflict(columns, Action("nothing"))
    if words != ["do", "update"] or not rest or not rest[0].is_word("set"):
        raise SqlError(_CONFLICT)
    if not columns:
        raise SqlError(f"ON CONFLICT DO UPDATE needs the columns of a key: {_CONFLICT}")
    where = _Parts(rest, 0, sql).at("where")
    action = Action("update", "matched", _text(rest[where + 1 :], sql), _assignments(rest[1:where], sql))
    return Conflict(columns, action)


def _when(tokens: Sequence[Token], sql: str) -> Action:
    """Read `WHEN [NOT] MATCHED [BY SOURCE | BY TARGET] [AND condition] THEN action`."""
    words = [token.text.lower() for token in tokens[1:5]]
    rows: Rows = "matched"
    at = 2
    if words[:1] == ["not"]:
        rows, at = "not_matched", 3
        if words[2:4] == ["by", "source"]:
            rows, at = "not_matched_by_source", 5
        elif words[2:4] == ["by", "target"]:
            at = 5
    then = _Parts(tokens, 1, sql).at("then")
    if "matched" not in words[:2] or then >= len(tokens) - 1 or (at < then and not tokens[at].is_word("and")):
        raise SqlError(_WHENS)
    condition = _text(tokens[at + 1 : then], sql)
    if at + 1 == then:
        raise SqlError(f"nothing follows AND in WHEN: {_WHENS}")
    return _then(tokens[then + 1 :], sql, rows, condition)


def _then(tokens: Sequence[Token], sql: str, rows: Rows, condition: str) -> Action:
    words = [token.text.lower() for token in tokens[:2]]
    if words == ["do", "nothing"] and len(tokens) == 2:
        return Action("nothing", rows, condition)
    if rows == "not_matched":
        if words[0] == "insert":
            return _merge_insert(tokens[1:], sql, condition)
        raise SqlError(f"WHEN NOT MATCHED has no row to {words[0][:40].upper()}: write INSERT or DO NOTHING")
    if words == ["update", "set"]:
        return Action("update", rows, condition, _assignments(tokens[2:], sql))
    if words == ["delete"]:
        return Action("delete", rows, condition)
    if words[0] == "insert":
        raise SqlError("INSERT works only after WHEN NOT MATCHED: write UPDATE or DELETE for a row that matched")
    raise SqlError(_WHENS)


def _merge_insert(tokens: Sequence[Token], sql: str, condition: str) -> Action:
    names: list[str] = []
    at = 0
    if len(tokens) == 1 and tokens[0].is_word("row"):
        return Action("insert", "not_matched", condition, positional=True, of_source=True)
    if tokens and tokens[0].is_symbol("("):
        end = _Parts(tokens, 0, sql).closing(0)
        for part in split_list(tokens[1:end]):
            name = identifier(part[0]) if len(part) == 1 else None
            if name is None:
                raise SqlError(f"INSERT ({_text(part, sql)[:40]}) does not name a column: {_WHENS}")
            names.append(name)
        at = end + 1
    if [token.text.lower() for token in tokens[at:]] == ["default", "values"]:
        return Action("insert", "not_matched", condition)
    if not (at + 1 < len(tokens) and tokens[at].is_word("values") and tokens[at + 1].is_symbol("(")):
        raise SqlError(_WHENS)
    end = _Parts(tokens, 0, sql).closing(at + 1)
    if end != len(tokens) - 1:
        raise SqlError(f"INSERT in MERGE takes one row of values: {_WHENS}")
    values = [_value(part, sql) for part in split_list(tokens[at + 2 : end])]
    if names and len(names) != len(values):
        raise SqlError(f"INSERT names {len(names)} columns but gets {len(values)} values")
    _check_twice(names, "INSERT names")
    pairs = zip(names or [str(i) for i in range(len(values))], values, strict=True)
    return Action("insert", "not_matched", condition, tuple(pairs), positional=not names)


def _assignments(tokens: Sequence[Token], sql: str, tables: Sequence[str] = ()) -> tuple[tuple[str, str | None], ...]:
    """Read `a = 1, (b, c) = (2, 3)`. Columns can be qualified with one of the names `tables`; empty: with any name.

    Raises:
        SqlError: an assignment is malformed, or it sets a column twice. DataFusion would silently use one value.
    """
    found: list[tuple[str, str | None]] = []
    for part in split_list(tokens):
        if part and part[0].is_symbol("("):
            found += _together(part, sql)
            continue
        name, after = read_parts(part, 0)
        if not name or after + 1 >= len(part) or not part[after].is_symbol("="):
            raise SqlError(f"write SET column = value, not {_text(part, sql)[:80]!r}")
        if tables and len(name) > 1 and name[-2] not in tables:
            raise SqlError(f"SET {'.'.join(name)}: UPDATE changes only the columns of {tables[0]}")
        found.append((name[-1], _value(part[after + 1 :], sql)))
    _check_twice([name for name, _ in found], "UPDATE sets")
    return tuple(found)


def _together(tokens: Sequence[Token], sql: str) -> Iterator[tuple[str, str | None]]:
    """Read `(a, b) = (1, 2)` or `(a, b) = ROW (1, 2)`."""
    parts = _Parts(tokens, 0, sql)
    end = parts.closing(0)
    names = [identifier(part[0]) if len(part) == 1 else None for part in split_list(tokens[1:end])]
    rest = tokens[end + 1 :]
    row = rest[2:] if len(rest) > 1 and rest[1].is_word("row") else rest[1:]
    if not (rest and rest[0].is_symbol("=") and len(row) > 1 and row[0].is_symbol("(") and row[-1].is_symbol(")")):
        raise SqlError(f"write SET (a, b) = (value, value), not {_text(tokens, sql)[:80]!r}")
    if row[1].is_word("select", *_SUBQUERY_WORDS):
        raise UnsupportedError(
            "SET (a, b) = (SELECT …) is not supported: write UPDATE … SET a = …, b = … FROM (SELECT …)"
        )
    values = [_value(part, sql) for part in split_list(row[1:-1])]
    if len(values) != len(names):
        raise SqlError(
            f"SET has {len(names)} columns in parentheses but {len(values)} values: write as many values as columns"
        )
    for name, value in zip(names, values, strict=True):
        if name is None:
            raise SqlError("SET (a, b) takes names of columns")
        yield name, value


def _value(tokens: Sequence[Token], sql: str) -> str | None:
    if not tokens:
        raise SqlError("a value is missing")
    return None if len(tokens) == 1 and tokens[0].is_word("default") else _text(tokens, sql)


def _check_twice(names: Sequence[str], what: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise SqlError(f"{what} the column {name!r} twice")


def _alias(tokens: Sequence[Token], target: TableName, verb: str) -> str:
    """Return the alias of a table from the tokens after its name, or its name if there is no alias."""
    named = tokens[1:] if tokens and tokens[0].is_word("as") else tokens
    alias = identifier(named[0]) if len(named) == 1 else None
    if (tokens and alias is None) or len(named) > 1:
        raise SqlError(f"{verb} changes one table: write {verb} name [AS alias] …")
    return target.name if alias is None else alias


def _check_clauses(tokens: Sequence[Token], start: int, end: int, verb: str) -> None:
    """Refuse LIMIT and ORDER BY, which DataFusion would ignore."""
    for index in outside(tokens, start, end):
        token, after = tokens[index], tokens[index + 1 : index + 2]
        if token.is_word("limit") or (token.is_word("order") and after and after[0].is_word("by")):
            raise UnsupportedError(
                f"{verb} with {token.text.upper()} is not supported: write WHERE key IN (SELECT key FROM … LIMIT …)"
            )


def _check_given(tokens: Sequence[Token], starts: Sequence[int]) -> None:
    """Raise `SqlError` if nothing follows FROM, USING, WHERE or RETURNING."""
    for start, end in pairwise(starts):
        if end == start + 1:
            raise SqlError(f"nothing follows {tokens[start].text.upper()}: complete the clause, or leave the word out")


def _is_simple(tokens: Sequence[Token], start: int, values: Sequence[tuple[str, str | None]]) -> bool:
    """Return whether DataFusion plans the statement correctly.

    If the statement has a subquery, DataFusion drops the WHERE and changes every row.
    """
    for before, token in pairwise(tokens[start - 1 :]):
        if token.is_word("select") or (before.is_symbol("(") and token.is_word(*_SUBQUERY_WORDS)):
            return False
    return all(value is not None for _, value in values)


class _Parts:
    """A finder of words outside parentheses and outside CASE … END."""

    def __init__(self, tokens: Sequence[Token], start: int, sql: str) -> None:
        self._tokens = tokens
        self._start = start
        self._sql = sql

    def all(self, word: str, start: int, end: int) -> Iterator[int]:
        """Yield the indexes of a word, except the FROM of IS DISTINCT FROM."""
        for index in outside(self._tokens, start, end):
            if self._tokens[index].is_word(word) and not (index and self._tokens[index - 1].is_word("distinct")):
                yield index

    def at(self, word: str, *, start: int | None = None, end: int | None = None) -> int:
        """Return the first index of a word, or `end` if the word is missing."""
        end = len(self._tokens) if end is None else end
        return next(self.all(word, self._start if start is None else start, end), end)

    def at_last(self, word: str, start: int, end: int) -> int:
        """Return the last index of a word, or `end` if the word is missing."""
        return max(self.all(word, start, end), default=end)

    def text(self, start: int, end: int) -> str:
        """Return the tokens from `start` up to `end` as text."""
        return _text(self._tokens[start:end], self._sql)

    def closing(self, start: int) -> int:
        """Return the index of the parenthesis that closes the one at `start`."""
        return closing_parenthesis(self._tokens, start)


def outside(tokens: Sequence[Token], start: int, end: int) -> Iterator[int]:
    """Yield the indexes of tokens outside brackets and outside CASE … END."""
    depth = cases = 0
    for index in range(start, min(end, len(tokens))):
        token = tokens[index]
        depth += sum(map(token.is_symbol, "([{")) - sum(map(token.is_symbol, ")]}"))
        qualified = index and tokens[index - 1].is_symbol(".")
        if depth == 0 and token.is_word("case") and not qualified:
            cases += 1
        elif depth == 0 and cases and token.is_word("end") and not qualified:
            cases -= 1
        elif depth == 0 and not cases:
            yield index


def split_list(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the parts between commas outside brackets."""
    first = 0
    for index in outside(tokens, 0, len(tokens)):
        if tokens[index].is_symbol(","):
            yield tokens[first:index]
            first = index + 1
    yield tokens[first:]


def _text(tokens: Sequence[Token], sql: str, alias: str | None = None, name: str = "") -> str:
    """Return tokens as text without comments, with `name` in place of the table's alias `alias`.

    Without comments, no later step can read the text in another way.
    """
    parts, end = [], tokens[0].start if tokens else 0
    for index, token in enumerate(tokens):
        parts.append(" " if token.start > end else "")
        aliased = alias is not None and identifier(token) == alias and _qualifies(tokens, index)
        parts.append(name if aliased else sql[token.start : token.end])
        end = token.end
    return "".join(parts)


def _qualifies(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a name is the first part of a longer name, as `t` in `t.column`."""
    after = tokens[index + 1 : index + 2]
    return bool(after) and after[0].is_symbol(".") and not (index and tokens[index - 1].is_symbol("."))


def with_alias(tokens: Sequence[Token], sql: str, target: TableName, alias: str) -> str:
    """Return tokens as text, with `alias.column` for each `schema.table.column` of the target table."""
    full = [(target.schema, target.name), ("flightllm", target.schema, target.name)]
    parts, end, index = [], tokens[0].start if tokens else 0, 0
    while index < len(tokens):
        token = tokens[index]
        parts.append(" " if token.start > end else "")
        names = read_parts(tokens, index)[0] if identifier(token) is not None else ()
        last = next((len(f) for f in full if names[: len(f)] == f and len(names) > len(f)), 0)
        if last and not (index and tokens[index - 1].is_symbol(".")):
            parts.append(quoted(alias))
            index += last * 2 - 1
        else:
            parts.append(sql[token.start : token.end])
            index += 1
        end = tokens[index - 1].end
    return "".join(parts)
