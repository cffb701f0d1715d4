"""Qualify names of tables, as the session resolves them: in its schema, or among its temporary tables."""

from collections.abc import Iterator, Sequence

from flightllm.common.names import CATALOG, SYSTEM_SCHEMA, TableName, is_temporary, quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.grants import kind_after_on
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import TokenKind

INFORMATION = ("table_constraints", "key_column_usage", "referential_constraints", "constraint_column_usage")
"""Tables of `information_schema` that DataFusion does not have; they are tables of the schema `system`."""
_PERMANENT = "a {} on a temporary table is not supported, because the table ends with its session: use CREATE TABLE"
TEMPORARY = ("temp", "temporary")
_TRUNCATED = ("truncate", "table", "only", "exists")
_LAST_ALTERED = 5
"""The last token that can name the table of ALTER: it follows `ALTER TABLE IF EXISTS ONLY`."""


def table_names(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT a FROM t` as `SELECT a FROM "flightllm"."s"."t" AS "t"` after `USE s`.

    In the usual schema, table names do not change.

    Raises:
        SqlError: CREATE TEMP TABLE names a schema.
        UnsupportedError: a permanent object is created on a temporary table.
    """
    makes = source.is_word(0, "create") and any(source.is_word(i, *TEMPORARY) for i in range(1, 5))
    if source.place.usual and not makes and source.words.isdisjoint(INFORMATION):
        return
    names = _Names(source, makes_temporary=makes)
    yield from names.targets()
    yield from names.references()
    yield from names.qualifiers()


def target_tokens(source: Source) -> Iterator[int]:
    """Yield the tokens at which the target tables of a statement are named."""
    verb = source.tokens[0].text.lower()
    if verb in {"describe", "desc"}:
        yield 2 if source.is_word(1, "table") and len(source.tokens) > 2 else 1
    elif verb in {"grant", "revoke"} or _is_about_table(source, verb):
        on = next((i for i, token in enumerate(source.tokens) if token.is_word("on")), len(source.tokens))
        kind, at = kind_after_on(source.tokens, on + 1) if verb in {"grant", "revoke"} else ("TABLE", on + 1)
        if kind == "TABLE":
            yield at
        return
    for index, token in enumerate(source.tokens):
        follows = source.is_word(index - 1, "into", "table", "view", "exists", "references")
        if verb == "show":
            told = source.is_word(1, "columns", "create") or source.is_word(2, "columns")  # SHOW FULL COLUMNS
            follows = told and source.is_word(index - 1, "from", "in", "table")
        elif verb == "drop":
            follows = follows or source.is_symbol(index - 1, ",")
        elif verb == "truncate":
            before = source.is_symbol(index - 1, ",") or source.is_word(index - 1, *_TRUNCATED)
            follows = before and not token.is_word("table", "only", "if")
        elif verb == "alter":
            before = source.is_word(index - 1, "table", "view", "exists", "only")
            follows = before and index <= _LAST_ALTERED and not token.is_word("only")
        named = source.scopes.names_table[index] or verb in {"show", "alter", "truncate"}
        named = named or source.is_word(index - 1, "references")
        is_name = token.kind in {TokenKind.WORD, TokenKind.QUOTED} and not token.is_word("if", "not", "exists")
        if follows and named and is_name:
            yield index


def _is_about_table(source: Source, verb: str) -> bool:
    """Return whether a statement creates or drops an index, a row filter or a mask on a table."""
    made = 3 if source.is_word(1, "or") else 1
    pairs = (("vector", "index"), ("row", "filter"), ("column", "mask"))
    return verb in {"create", "drop"} and any(source.is_word(made, a) and source.is_word(made + 1, b) for a, b in pairs)


class _Names:
    """The table names in one statement."""

    def __init__(self, source: Source, *, makes_temporary: bool) -> None:
        self._source = source
        self._place = source.place
        self._makes_temporary = makes_temporary
        self._verb = source.tokens[0].text.lower()
        self._targets = list(target_tokens(source))

    def targets(self) -> Iterator[Edit]:
        """Yield the names of target tables; CREATE takes the first schema, other statements look the table up."""
        source = self._source
        creating = self._verb == "create" and not _is_about_table(self._source, self._verb)
        for index in self._targets:
            parts, after = read_parts(source.tokens, index)
            made = creating and not source.is_word(index - 1, "references")
            if made and self._makes_temporary:
                yield from self._temporary(parts, index, after)
                continue
            own = self._own(parts)
            if own is None and (len(parts) != 1 or self._is_common(index, parts[0])):
                continue
            name = own or (TableName(self._place.path[0], parts[0]) if made else self._place.found(parts[0]))
            if is_temporary(name.schema):
                self._check_permanent(index)
            yield self._edit(index, after, name)

    def _temporary(self, parts: Sequence[str], index: int, after: int) -> Iterator[Edit]:
        """Yield the edits that put a CREATE TEMP TABLE into the session's own schema."""
        source = self._source
        if len(parts) > 1 and parts[-2] not in {"pg_temp", self._place.temporary}:
            raise SqlError("a temporary table has no schema: write CREATE TEMP TABLE with a name of one part")
        for at in range(1, index):
            if source.is_word(at, *TEMPORARY):
                start = at - source.is_word(at - 1, "local", "global")
                yield Edit(source.tokens[start].start, source.tokens[at + 1].start, "")
        yield self._edit(index, after, TableName(self._place.temporary, parts[-1]))
        for at in range(after, len(source.tokens) - 3):
            if [token.text.lower() for token in source.tokens[at : at + 4]] == ["on", "commit", "preserve", "rows"]:
                yield Edit(source.tokens[at].start, source.tokens[at + 3].end, "")

    def _check_permanent(self, index: int) -> None:
        """Raise `UnsupportedError` for a permanent object on a temporary table."""
        if self._verb in {"grant", "revoke"} or _is_about_table(self._source, self._verb):
            what = "vector index" if self._source.is_word(1, "vector") or self._source.is_word(3, "vector") else "right"
            raise UnsupportedError(_PERMANENT.format(what))
        if self._source.is_word(index - 1, "references") and not self._makes_temporary:
            raise UnsupportedError(_PERMANENT.format("foreign key"))

    def references(self) -> Iterator[Edit]:
        """Yield the names of tables that are read; a table without an alias gets its name as alias."""
        if self._verb in {"grant", "revoke", "show", "describe", "desc"} or _is_about_table(self._source, self._verb):
            return
        source, seen = self._source, set[int](self._targets)
        view = self._verb == "create" and any(source.is_word(i, "view") for i in range(1, 5))
        for scope in {id(scope): scope for scope in source.scopes.of}.values():
            for table in scope.tables:
                if not table.parts or table.first in seen:
                    continue
                seen.add(table.first)
                name = self._read(table.parts, table.first)
                if name is None:
                    continue
                if is_temporary(name.schema) and view and not self._makes_temporary:
                    raise UnsupportedError(_PERMANENT.format("view"))
                changes = self._verb in {"update", "delete"} and source.is_word(table.first - 1, "update", "from")
                alias = "" if table.aliased or (changes and table.first <= 2) else f" AS {quoted(table.parts[-1])}"
                yield self._edit(table.first, table.last, name, alias)

    def _read(self, parts: tuple[str, ...], index: int) -> TableName | None:
        """Return the table that a name in FROM means, or None if it means the same without a session."""
        if len(parts) == 1 and not self._is_common(index, parts[0]):
            name = self._place.found(parts[0])
            return None if self._place.usual else name
        if len(parts) > 1 and parts[-2] == "information_schema" and parts[-1] in INFORMATION:
            return TableName(SYSTEM_SCHEMA, parts[-1])
        return self._own(parts)

    def _own(self, parts: Sequence[str]) -> TableName | None:
        """Return the temporary table that `pg_temp.t` means, or None for other names."""
        if len(parts) > 1 and parts[-2] == "pg_temp" and self._place.has_temporary:
            return TableName(self._place.temporary, parts[-1])
        return None

    def qualifiers(self) -> Iterator[Edit]:
        """Rewrite `s.t.a` as `t.a` for the tables that got their name as an alias."""
        source = self._source
        if self._place.usual:
            return
        named = {
            (name.schema, name.name)
            for scope in source.scopes.of
            for table in scope.tables
            if len(table.parts) == 1 and not table.aliased
            for name in (self._place.found(table.parts[0]),)
        }
        for index, token in enumerate(source.tokens):
            if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.scopes.names_table[index]:
                continue
            parts, after = read_parts(source.tokens, index)
            inside = source.is_symbol(index - 1, ".") or after > len(source.tokens)
            if not inside and len(parts) in {3, 4} and (parts[-3], parts[-2]) in named:
                start = source.tokens[index].start
                yield Edit(start, source.tokens[after - 3].start, "")

    def _is_common(self, index: int, name: str) -> bool:
        """Return whether a name at a token means a WITH query."""
        return self._source.scopes.common_table((name,), index) is not None

    def _edit(self, first: int, last: int, name: TableName, alias: str = "") -> Edit:
        tokens = self._source.tokens
        text = f"{quoted(CATALOG)}.{quoted(name.schema)}.{quoted(name.name)}{alias}"
        return Edit(tokens[first].start, tokens[last - 1].end, text)
