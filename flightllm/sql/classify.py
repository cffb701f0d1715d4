"""Parser that finds the kind of a statement and its parts before the planner runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from flightllm.common.names import TableName, quoted, table_name
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.access_statements import read_access_statement
from flightllm.sql.alter_statements import read_alter
from flightllm.sql.attach_statements import read_attach, read_detach, read_refresh_database
from flightllm.sql.client_parameters import keeps_parameter, resets_parameter
from flightllm.sql.explain_options import read_explain_options
from flightllm.sql.external_tables import read_external_table
from flightllm.sql.filter_statements import read_filter_statement
from flightllm.sql.function_statements import read_function_statement
from flightllm.sql.index_statements import read_index_statement
from flightllm.sql.names import read_column_names, read_name, read_parts
from flightllm.sql.object_statements import changes_object, read_object_statement
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.place_statements import read_place_statement
from flightllm.sql.row_change import RowChange
from flightllm.sql.row_changes import read_insert_tail, read_merge, read_row_change
from flightllm.sql.setting_statements import read_reset, read_set, read_show
from flightllm.sql.statement import REFUSED, Statement
from flightllm.sql.table_statements import read_create, read_drop
from flightllm.sql.tokens import Token, TokenKind
from flightllm.sql.truncate_statements import read_truncate
from flightllm.sql.warehouse_statements import alters_session, uses_nothing

_OBJECTS: Mapping[str, Callable[[Sequence[Token], str], Statement | None]] = {
    "vector": read_index_statement,
    "row": read_access_statement,
    "column": read_access_statement,
    **dict.fromkeys(("model", "models", "prompt", "prompts"), read_object_statement),
    **dict.fromkeys(("global", "local", "secret", "persistent"), read_object_statement),
    **dict.fromkeys(("function", "user"), read_function_statement),
    **dict.fromkeys(("filter", "filters"), read_filter_statement),
    "external": read_external_table,
    "database": read_refresh_database,
}
"""Readers by the word after CREATE [OR REPLACE], DROP, GET, REFRESH or SHOW; each returns None for other statements."""
BEGINS_SELECT = re.compile(r"[\s(]*+SELECT\s", re.IGNORECASE)
"""The begin of a text that is a query, whatever follows."""
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("install", "load"), "leave it out, because the functions are here without it"),
    "pragma": "write SHOW flightllm.timeout, or SET flightllm.timeout = 60",
    **dict.fromkeys(("cache", "uncache"), "leave it out, or write CREATE TABLE kept AS SELECT * FROM t"),
}
"""The advice for statements of other servers, by their first word."""
_QUERY_WORDS = ("select", "with", "values")
_EXPLAINED: Mapping[str, str] = {
    "update": "UPDATE",
    "delete": "DELETE",
    "merge": "MERGE",
    "insert": "INSERT",
    "create_table_as": "CREATE TABLE AS",
    "create_function": "CREATE FUNCTION",
    "create_filter": "CREATE FILTER",
    "refit_filter": "ALTER FILTER … REFIT",
}
"""The kinds of statements besides queries that EXPLAIN explains, with their words."""


def classify(text: ParsedText) -> Statement:
    """Return the kind of a statement and its parts, without planning or executing the statement.

    Raises:
        SqlError: the text is empty, holds several statements, or a part is missing.
        UnsupportedError: the server does not run this kind of statement.
    """
    tokens = _one_statement(text.tokens)
    return replace(_StatementReader(text.sql, tokens).statement(), source=text)


def _one_statement(tokens: Sequence[Token]) -> Sequence[Token]:
    end = len(tokens)
    while end and tokens[end - 1].is_symbol(";"):
        end -= 1
    if not end:
        raise SqlError("the SQL text is empty")
    if any(token.is_symbol(";") for token in tokens[:end]):
        if _is_block(tokens):
            raise UnsupportedError(
                "blocks of a script are not supported: write each statement on its own; a value is a variable after"
                " SET x = 5 in the dialect snowflake"
            )
        raise SqlError("one statement at a time: send the statements separated by ';' one after the other")
    return tokens[:end]


def _is_block(tokens: Sequence[Token]) -> bool:
    """Return whether a text begins as a block of a vendor's script: DECLARE, or BEGIN and a statement."""
    following = tokens[1] if len(tokens) > 1 else tokens[0]
    begins = (
        tokens[0].is_word("begin") and not following.is_word("transaction", "work") and not following.is_symbol(";")
    )
    return begins or tokens[0].is_word("declare")


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
        if inner.kind in _EXPLAINED:
            if analyze:
                what = _EXPLAINED[inner.kind]
                raise UnsupportedError(
                    f"EXPLAIN ANALYZE would run the {what}: write EXPLAIN, which changes nothing, or run it and read"
                    " system.queries"
                )
            return Statement(
                "explain",
                text,
                query=inner.query,
                format=options.format,
                savings=options.savings,
                explained=inner,
            )
        if inner.kind != "query":
            raise UnsupportedError(
                "EXPLAIN works only for queries, changes of rows, CREATE FUNCTION and fits of filters: write"
                " EXPLAIN [ANALYZE] SELECT …"
            )
        return Statement(
            "explain",
            text,
            query=inner.query,
            summarized=inner.summarized,
            analyze=analyze,
            format=options.format,
            savings=options.savings,
        )

    # --- settings

    def _show(self) -> Statement:
        if (found := self._object(1)) is not None:
            return found
        return read_show(self._tokens, self._rest(0)) or self._query()

    def _place(self) -> Statement | None:
        return read_place_statement(self._tokens, self._rest(0))

    def _set(self) -> Statement:
        if (found := self._place()) is not None:
            return found
        if keeps_parameter(self._tokens):
            return Statement("parameter", self._rest(0))
        return read_set(self._tokens, self._rest(0))

    def _reset(self) -> Statement:
        if (found := self._place()) is not None:
            return found
        if resets_parameter(self._tokens):
            return Statement("parameter", self._rest(0))
        return read_reset(self._tokens, self._rest(0))

    # --- tables, views, schemas

    def _create(self) -> Statement:
        tokens = self._tokens
        replaces = len(tokens) > 2 and tokens[1].is_word("or") and tokens[2].is_word("replace")
        if (found := self._object(3 if replaces else 1)) is not None:
            return found
        return read_create(tokens, self._rest(0), self._query_at)

    def _drop(self) -> Statement:
        return self._object(1) or read_drop(self._tokens, self._rest(0))

    def _refresh(self) -> Statement:
        return self._object(1) or self._unknown(self._tokens[0])

    def _access(self) -> Statement:
        return read_access_statement(self._tokens, self._rest(0)) or self._unknown(self._tokens[0])

    def _use(self) -> Statement:
        if uses_nothing(self._tokens):
            return Statement("parameter", self._rest(0))
        return self._place() or self._unknown(self._tokens[0])

    def _transaction(self) -> Statement:
        return Statement("transaction", self._rest(0), key=self._tokens[0].text.lower())

    # --- rows

    def _row_change(self) -> Statement:
        if changes_object(self._tokens) and (found := self._object(1)) is not None:
            return found
        return read_row_change(self._tokens, self._sql)

    def _merge(self) -> Statement:
        return read_merge(self._tokens, self._sql)

    def _insert(self) -> Statement:
        self._at += 1
        if self._take("overwrite"):
            raise UnsupportedError(
                "INSERT OVERWRITE is not supported: write DELETE FROM the table and then INSERT INTO, both between"
                " BEGIN and COMMIT"
            )
        if not self._take("into"):
            raise UnsupportedError("write INSERT INTO table [(columns)] SELECT … or VALUES …")
        target = self._name()
        alias = target.name
        if self._take("as"):
            names, self._at = read_parts(self._tokens, self._at)
            if len(names) != 1:
                raise SqlError("write INSERT INTO table AS alias …")
            alias = names[0]
        columns, self._at = read_column_names(self._tokens, self._at)
        rest = self._tokens[self._at :]
        end, change = read_insert_tail(rest, self._sql, alias)
        if [token.text.lower() for token in rest[:end]] == ["default", "values"]:
            return _insert_of(target, columns, "DEFAULT VALUES", change)
        inner = _StatementReader(self._sql, self._tokens[: self._at + end])
        inner._at = self._at
        return _insert_of(target, columns, inner._inner_query("INSERT INTO"), change)

    def _alter(self) -> Statement:
        if alters_session(self._tokens):
            return Statement("parameter", self._rest(0))
        return self._object(1) or read_alter(self._tokens, self._rest(0))

    def _truncate(self) -> Statement:
        return read_truncate(self._tokens, self._rest(0))

    def _attach(self) -> Statement:
        return read_attach(self._tokens, self._rest(0))

    def _detach(self) -> Statement:
        return read_detach(self._tokens, self._rest(0))

    # --- pieces

    def _unknown(self, token: Token) -> Statement:
        line = _INSTEAD.get(token.text.lower(), "write SELECT, WITH, …")
        raise SqlError(f"no statement starts with {self._sql[token.start : token.end][:40]!r}: {line}")

    def _word(self, word: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].is_word(word)

    def _take(self, word: str) -> bool:
        found = self._word(word)
        self._at += found
        return found

    def _name(self) -> TableName:
        name, self._at = read_name(self._tokens, self._at)
        return name

    def _inner_query(self, what: str) -> str:
        return self._query_at(self._at, what)

    def _query_at(self, start: int, what: str) -> str:
        """Return the query that begins at a token; `what` is the statement that needs the query."""
        rest = self._tokens[start:]
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
        "get": _refresh,
        "alter": _alter,
        "grant": _access,
        "revoke": _access,
        "insert": _insert,
        "delete": _row_change,
        "update": _row_change,
        "merge": _merge,
        "truncate": _truncate,
        "attach": _attach,
        "detach": _detach,
        **dict.fromkeys(("begin", "start", "commit", "rollback", "end", "savepoint", "release", "abort"), _transaction),
    }


def _insert_of(
    target: TableName | None, columns: tuple[str, ...], query: str | None, change: RowChange | None = None
) -> Statement:
    if target is None or query is None:
        raise SqlError("write INSERT INTO table [(columns)] SELECT … or VALUES …")
    names = f" ({', '.join(quoted(column) for column in columns)})" if columns else ""
    text = f"INSERT INTO {target.sql}{names} {query}"
    return Statement("insert", text, query=query, target=target, columns=columns, change=change)
