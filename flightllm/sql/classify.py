"""Parser that finds the kind of a statement and its parts before the planner runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from flightllm.common.names import TableName, quoted, table_name
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.access_statements import read_access_statement
from flightllm.sql.client_parameters import keeps_parameter
from flightllm.sql.column_lists import read_column_list
from flightllm.sql.explain_options import read_explain_options
from flightllm.sql.external_tables import read_external_table
from flightllm.sql.index_statements import read_index_statement
from flightllm.sql.names import identifier, read_name, read_parts
from flightllm.sql.object_statements import read_object_statement
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.place_statements import read_place_statement
from flightllm.sql.row_change import RowChange
from flightllm.sql.row_changes import read_insert_tail, read_merge, read_row_change
from flightllm.sql.statement import REFUSED, REFUSED_OBJECTS, Statement, StatementKind
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis

SETTING_PREFIX = "flightllm"
ANSWER_CACHE = TableName("system", "cache")
"""The system table of the answer cache; TRUNCATE uses this name."""
_OBJECTS: Mapping[str, Callable[[Sequence[Token], str], Statement | None]] = {
    "vector": read_index_statement,
    "row": read_access_statement,
    "column": read_access_statement,
    **dict.fromkeys(("model", "models", "prompt", "prompts"), read_object_statement),
    "external": read_external_table,
}
"""Readers by the word after CREATE [OR REPLACE], DROP, REFRESH or SHOW; each returns None for other statements."""
_QUERY_WORDS = ("select", "with", "values")


def classify(text: str | ParsedText) -> Statement:
    """Return the kind of a statement and its parts, without planning or executing the statement.

    Raises:
        SqlError: the text is empty, holds several statements, or a part is missing.
        UnsupportedError: the server does not run this kind of statement.
    """
    parsed = ParsedText.of(text)
    tokens = _one_statement(parsed.tokens)
    return replace(_StatementReader(parsed.sql, tokens).statement(), source=parsed)


def _one_statement(tokens: Sequence[Token]) -> Sequence[Token]:
    end = len(tokens)
    while end and tokens[end - 1].is_symbol(";"):
        end -= 1
    if not end:
        raise SqlError("the SQL text is empty")
    if any(token.is_symbol(";") for token in tokens[:end]):
        raise SqlError("one statement at a time: send the statements separated by ';' one after the other")
    return tokens[:end]


class _StatementReader:
    """A reader that goes through the tokens of one statement from left to right."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = tokens
        self._at = 0

    def statement(self) -> Statement:
        first = next((token for token in self._tokens if not token.is_symbol("(")), self._tokens[0])
        word = first.text.lower() if first.kind is TokenKind.WORD else ""
        if self._tokens[0].is_symbol("("):
            return self._query() if word in _QUERY_WORDS else self._unknown(first)
        if word in REFUSED:
            raise UnsupportedError(REFUSED[word])
        read = self._by_first_word.get(word)
        return self._unknown(first) if read is None else read(self)

    def _object(self, at: int) -> Statement | None:
        """Read a statement about an object that only this server has, such as a model; return None for others.

        The token at `at` names the kind of object.
        """
        token = self._tokens[at] if at < len(self._tokens) else None
        read = _OBJECTS.get(token.text.lower()) if token is not None and token.kind is TokenKind.WORD else None
        return None if read is None else read(self._tokens, self._rest(0))

    # --- queries

    def _query(self) -> Statement:
        text = self._rest(0)
        return Statement("query", text, query=text)

    def _describe(self) -> Statement:
        """Read DESCRIBE; set `target` for a table and `described` for a query."""
        parts, after = read_parts(self._tokens, 1)
        target = table_name(parts) if parts and after == len(self._tokens) else None
        first = next((token for token in self._tokens[1:] if not token.is_symbol("(")), self._tokens[0])
        described = self._rest(1) if first.is_word(*_QUERY_WORDS) else None
        return replace(self._query(), target=target, described=described)

    def _summarize(self) -> Statement:
        """Read SUMMARIZE and a query; an earlier step turned the name of a table into a query."""
        self._at = 1
        return Statement("query", self._rest(0), query=self._inner_query("SUMMARIZE"), summarized=True)

    def _table(self) -> Statement:
        name, after = read_name(self._tokens, 1)
        if after != len(self._tokens):
            raise SqlError("TABLE takes one table name; write SELECT … FROM for more")
        return Statement("query", self._rest(0), query=f"SELECT * FROM {name.sql}")

    def _with(self) -> Statement:
        main = self._main_of_with()
        common, rest = self._slice(0, main), self._tokens[main:]
        if rest[0].is_word("update", "delete"):
            return read_row_change(rest, self._sql, common)
        if rest[0].is_word("merge"):
            return read_merge(rest, self._sql, common)
        if not rest[0].is_word("insert"):
            return self._query()
        self._at = main
        insert = self._insert()
        change = None if insert.change is None else replace(insert.change, common=common)
        return _insert_of(insert.target, insert.columns, f"{common} {insert.query}", change)

    def _main_of_with(self) -> int:
        """Return the index of the word that follows the WITH list, or of the last token if no word follows."""
        depth = 0
        for index, token in enumerate(self._tokens):
            depth += token.is_symbol("(") - token.is_symbol(")")
            after_list = index > 0 and self._tokens[index - 1].is_symbol(")")
            if depth == 0 and after_list and token.is_word("select", "insert", "update", "delete", "merge", "values"):
                return index
        return len(self._tokens) - 1

    def _explain(self) -> Statement:
        options, self._at = read_explain_options(self._tokens, 1)
        if self._at >= len(self._tokens):
            raise SqlError("EXPLAIN needs a statement: write EXPLAIN SELECT …")
        inner = _StatementReader(self._sql, self._tokens[self._at :]).statement()
        analyze, text = options.analyze, self._rest(0)
        if inner.kind in ("update", "delete", "merge", "insert", "create_table_as"):
            if analyze:
                what = inner.kind.replace("_", " ").upper()
                raise UnsupportedError(
                    f"EXPLAIN ANALYZE would run the {what}: write EXPLAIN, which changes nothing, or run it and read"
                    " system.queries"
                )
            return Statement("explain", text, query=inner.query, format=options.format, explained=inner)
        if inner.kind != "query":
            raise UnsupportedError(
                "EXPLAIN works only for queries and changes of rows: write EXPLAIN [ANALYZE] SELECT …"
            )
        return Statement(
            "explain",
            text,
            query=inner.query,
            summarized=inner.summarized,
            analyze=analyze,
            format=options.format,
        )

    # --- settings

    def _show(self) -> Statement:
        if (found := self._object(1)) is not None:
            return found
        parts, after = read_parts(self._tokens, 1)
        if parts[:1] != (SETTING_PREFIX,) or after != len(self._tokens):
            return self._query()
        return Statement("show", self._rest(0), key=".".join(parts[1:]) or "all")

    def _place(self) -> Statement | None:
        return read_place_statement(self._tokens, self._rest(0))

    def _set(self) -> Statement:
        if (found := self._place()) is not None:
            return found
        if keeps_parameter(self._tokens):
            return Statement("parameter", self._rest(0))
        key, self._at = self._setting("SET")
        if self._at < len(self._tokens) and (self._tokens[self._at].is_symbol("=") or self._word("to")):
            self._at += 1
        else:
            raise SqlError(f"write SET {SETTING_PREFIX}.{key} = 'value'")
        sign = "-" if self._at < len(self._tokens) and self._tokens[self._at].is_symbol("-") else ""
        self._at += len(sign)
        value = sign + self._literal_or_word()
        self._end(f"SET {SETTING_PREFIX}.{key} takes one value; quote a value of several words")
        return Statement("set", self._rest(0), key=key, value=value)

    def _reset(self) -> Statement:
        if (found := self._place()) is not None:
            return found
        if len(self._tokens) == 2 and self._tokens[1].is_word("all"):
            return Statement("reset", self._rest(0), key="all")
        key, self._at = self._setting("RESET")
        self._end("RESET takes one setting")
        return Statement("reset", self._rest(0), key=key)

    def _setting(self, verb: str) -> tuple[str, int]:
        parts, after = read_parts(self._tokens, 1)
        if len(parts) < 2 or parts[0] != SETTING_PREFIX:
            raise UnsupportedError(f"only this server's own settings can be changed: {verb} {SETTING_PREFIX}.NAME")
        return ".".join(parts[1:]), after

    # --- tables, views, schemas

    def _create(self) -> Statement:
        tokens = self._tokens
        replaces = len(tokens) > 2 and tokens[1].is_word("or") and tokens[2].is_word("replace")
        if (found := self._object(3 if replaces else 1)) is not None:
            return found
        self._at = 1
        or_replace = self._take("or") and self._need("replace")
        _ = self._take("local") or self._take("global")
        temporary = self._take("temp") or self._take("temporary")
        word = self._tokens[self._at].text.lower() if self._at < len(self._tokens) else ""
        if word in REFUSED_OBJECTS:
            raise UnsupportedError(REFUSED_OBJECTS[word])
        if word not in {"table", "view", "schema"}:
            raise UnsupportedError("write CREATE TABLE | VIEW | SCHEMA | VECTOR INDEX | MODEL | PROMPT")
        if temporary and word == "schema":
            raise UnsupportedError("temporary schemas are not supported: write CREATE TEMPORARY TABLE or VIEW")
        self._at += 1
        exists_ok = self._take("if") and self._need("not") and self._need("exists")
        if word == "schema":
            return Statement("create_schema", self._rest(0), target=self._schema_name(), exists_ok=exists_ok)
        target = self._name()
        if word == "view":
            return self._create_view(target, or_replace=or_replace, exists_ok=exists_ok)
        return self._create_table(target, or_replace=or_replace, exists_ok=exists_ok)

    def _create_table(self, target: TableName, *, or_replace: bool, exists_ok: bool) -> Statement:
        if self._take("as"):
            query = self._inner_query("CREATE TABLE … AS")
            kind: StatementKind = "create_table_as"
            return Statement(
                kind, self._rest(0), query=query, target=target, or_replace=or_replace, exists_ok=exists_ok
            )
        start = self._at
        if start >= len(self._tokens) or not self._tokens[start].is_symbol("("):
            raise SqlError("write CREATE TABLE name (column type, …) or CREATE TABLE name AS SELECT …")
        self._at = self._closing(start) + 1
        tail, keys = read_column_list(self._slice(start, self._at), target)
        self._end("nothing can follow the column list of CREATE TABLE; with AS SELECT, leave the column list out")
        return Statement(
            "create_table",
            self._rest(0),
            target=target,
            or_replace=or_replace,
            exists_ok=exists_ok,
            tail=tail,
            keys=keys,
        )

    def _create_view(self, target: TableName, *, or_replace: bool, exists_ok: bool) -> Statement:
        columns = self._column_list()
        self._need("as")
        query = self._inner_query("CREATE VIEW … AS")
        return Statement(
            "create_view",
            self._rest(0),
            query=query,
            target=target,
            columns=columns,
            or_replace=or_replace,
            exists_ok=exists_ok,
        )

    def _drop(self) -> Statement:
        if (found := self._object(1)) is not None:
            return found
        self._at = 2
        if len(self._tokens) < 2 or not self._tokens[1].is_word("table", "view", "schema"):
            raise UnsupportedError("write DROP TABLE | VIEW | SCHEMA | VECTOR INDEX | MODEL | PROMPT")
        exists_ok = self._take("if") and self._need("exists")
        what = self._tokens[1].text.lower()
        target = self._schema_name() if what == "schema" else self._name()
        if self._take("cascade") and what == "schema":
            raise UnsupportedError("DROP SCHEMA … CASCADE is not supported: drop the tables in the schema first")
        _ = self._take("restrict")
        self._end(f"DROP {what.upper()} takes one name")
        kinds: dict[str, StatementKind] = {"table": "drop_table", "view": "drop_view", "schema": "drop_schema"}
        return Statement(kinds[what], self._rest(0), target=target, exists_ok=exists_ok)

    def _refresh(self) -> Statement:
        return self._object(1) or self._unknown(self._tokens[0])

    def _access(self) -> Statement:
        return read_access_statement(self._tokens, self._rest(0)) or self._unknown(self._tokens[0])

    def _use(self) -> Statement:
        return self._place() or self._unknown(self._tokens[0])

    def _transaction(self) -> Statement:
        return Statement("transaction", self._rest(0), key=self._tokens[0].text.lower())

    # --- rows

    def _row_change(self) -> Statement:
        return read_row_change(self._tokens, self._sql)

    def _merge(self) -> Statement:
        return read_merge(self._tokens, self._sql)

    def _insert(self) -> Statement:
        self._at += 1
        if not self._take("into"):
            raise UnsupportedError("write INSERT INTO table [(columns)] SELECT … or VALUES …")
        target = self._name()
        alias = target.name
        if self._take("as"):
            names, self._at = read_parts(self._tokens, self._at)
            if len(names) != 1:
                raise SqlError("write INSERT INTO table AS alias …")
            alias = names[0]
        columns = self._column_list()
        rest = self._tokens[self._at :]
        end, change = read_insert_tail(rest, self._sql, alias)
        inner = _StatementReader(self._sql, self._tokens[: self._at + end])
        inner._at = self._at
        return _insert_of(target, columns, inner._inner_query("INSERT INTO"), change)

    def _truncate(self) -> Statement:
        """Read TRUNCATE [TABLE] system.cache, which deletes all cached answers.

        No other table can be truncated.
        """
        self._at = 1
        _ = self._take("table")
        target = self._name()
        if target != ANSWER_CACHE:
            raise UnsupportedError(
                f"only {ANSWER_CACHE.display} can be truncated, not {target.display}: DELETE FROM empties a table made"
                " with CREATE TABLE; files and system tables are read-only"
            )
        self._end(f"TRUNCATE TABLE {ANSWER_CACHE.display} takes nothing more")
        return Statement("truncate", self._rest(0), target=target)

    # --- pieces

    def _unknown(self, token: Token) -> Statement:
        raise SqlError(f"no statement starts with {self._sql[token.start : token.end][:40]!r}: write SELECT, WITH, …")

    def _word(self, word: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].is_word(word)

    def _take(self, word: str) -> bool:
        found = self._word(word)
        self._at += found
        return found

    def _need(self, word: str) -> bool:
        if not self._take(word):
            found = self._tokens[self._at].text[:40] if self._at < len(self._tokens) else "the end"
            raise SqlError(f"expected {word.upper()}, found {found!r}")
        return True

    def _end(self, message: str) -> None:
        if self._at < len(self._tokens):
            raise SqlError(f"{message}; found {self._tokens[self._at].text[:40]!r}")

    def _name(self) -> TableName:
        name, self._at = read_name(self._tokens, self._at)
        return name

    def _schema_name(self) -> TableName:
        parts, self._at = read_parts(self._tokens, self._at)
        if not parts:
            raise SqlError("a schema name was expected")
        return TableName(parts[-1], "")

    def _literal_or_word(self) -> str:
        if self._at >= len(self._tokens):
            raise SqlError("a value was expected at the end")
        token = self._tokens[self._at]
        if token.kind not in {TokenKind.WORD, TokenKind.STRING, TokenKind.NUMBER, TokenKind.QUOTED}:
            raise SqlError(f"a value was expected, found {token.text[:40]!r}")
        self._at += 1
        return token.text

    def _column_list(self) -> tuple[str, ...]:
        """Read a list such as `(a, "B")` if there is one; do not read a query in parentheses."""
        tokens, start = self._tokens, self._at
        if start + 1 >= len(tokens) or not tokens[start].is_symbol("(") or tokens[start + 1].is_symbol("("):
            return ()
        if tokens[start + 1].is_word("select", "with", "values"):
            return ()
        end = self._closing(start)
        names = [identifier(token) for token in tokens[start + 1 : end] if not token.is_symbol(",")]
        if not names or len(names) * 2 - 1 != end - start - 1:
            raise SqlError("a list of column names was expected: (a, b, …)")
        self._at = end + 1
        return tuple(_given(name) for name in names)

    def _closing(self, start: int) -> int:
        return closing_parenthesis(self._tokens, start)

    def _inner_query(self, what: str) -> str:
        rest = self._tokens[self._at :]
        told = bool(rest) and rest[0].is_word("show", "describe", "desc", "summarize")
        inner = _StatementReader(self._sql, rest).statement() if rest and not told else None
        if inner is None or inner.kind != "query" or inner.query is None:
            raise SqlError(f"{what} needs a query after it: SELECT …, WITH … or VALUES …")
        return inner.query

    def _slice(self, start: int, stop: int) -> str:
        return self._sql[self._tokens[start].start : self._tokens[stop - 1].end]

    def _rest(self, start: int) -> str:
        return self._slice(start, len(self._tokens))

    _by_first_word: ClassVar[Mapping[str, Callable[["_StatementReader"], Statement]]] = {
        "select": _query,
        "values": _query,
        "table": _table,
        "with": _with,
        "describe": _describe,
        "desc": _describe,
        "summarize": _summarize,
        "explain": _explain,
        "show": _show,
        "set": _set,
        "reset": _reset,
        "use": _use,
        "create": _create,
        "drop": _drop,
        "refresh": _refresh,
        "grant": _access,
        "revoke": _access,
        "insert": _insert,
        "delete": _row_change,
        "update": _row_change,
        "merge": _merge,
        "truncate": _truncate,
        **dict.fromkeys(("begin", "start", "commit", "rollback", "end", "savepoint", "release", "abort"), _transaction),
    }


def _given(name: str | None) -> str:
    if name is None:
        raise SqlError("a list of column names was expected: (a, b, …)")
    return name


def _insert_of(
    target: TableName | None, columns: tuple[str, ...], query: str | None, change: RowChange | None = None
) -> Statement:
    if target is None or query is None:
        raise SqlError("write INSERT INTO table [(columns)] SELECT … or VALUES …")
    names = f" ({', '.join(quoted(column) for column in columns)})" if columns else ""
    text = f"INSERT INTO {target.sql}{names} {query}"
    return Statement("insert", text, query=query, target=target, columns=columns, change=change)
