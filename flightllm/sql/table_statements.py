"""Parser for CREATE and DROP of tables, views and schemas."""

from collections.abc import Callable, Sequence

from flightllm.common.names import TableName
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.column_lists import read_column_list, without_json
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import read_column_names, read_parts
from flightllm.sql.statement import REFUSED_OBJECTS, Statement, StatementKind
from flightllm.sql.tokens import Token, closing_parenthesis

_CREATE = "write CREATE TABLE | VIEW | SCHEMA | VECTOR INDEX | MODEL | PROMPT | FUNCTION"
_DROP = "write DROP TABLE | VIEW | SCHEMA | VECTOR INDEX | MODEL | PROMPT | FUNCTION"
_TABLE = "write CREATE TABLE name (column type, …) or CREATE TABLE name AS SELECT …"
_VIEW = "write CREATE VIEW name [(column, …)] AS SELECT …"


def read_create(tokens: Sequence[Token], text: str, query: Callable[[int, str], str]) -> Statement:
    """Read CREATE TABLE, VIEW or SCHEMA; `query` returns the query that begins at a token of a kind of statement.

    Raises:
        SqlError: a part is missing or unknown.
        UnsupportedError: the server does not make this kind of object.
    """
    return _TableStatementReader(tokens, text).create(query)


def read_drop(tokens: Sequence[Token], text: str) -> Statement:
    """Read DROP TABLE, VIEW or SCHEMA.

    Raises:
        SqlError: a part is missing or unknown.
        UnsupportedError: the server does not drop this kind of object, or does not CASCADE.
    """
    return _TableStatementReader(tokens, text).drop()


class _TableStatementReader(Cursor):
    """A reader that goes through the tokens from left to right; `text` is the text from the first token on."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        super().__init__(tokens, 1)
        self._text = text

    def create(self, query: Callable[[int, str], str]) -> Statement:
        or_replace = self.take("or")
        if or_replace:
            self.need("write CREATE OR REPLACE", "replace")
        _ = self.take("local") or self.take("global")
        temporary = self.take("temp") or self.take("temporary")
        word = self.tokens[self.at].text.lower() if self.at < len(self.tokens) else ""
        if word in REFUSED_OBJECTS:
            raise UnsupportedError(REFUSED_OBJECTS[word])
        if temporary and word == "function":
            raise UnsupportedError(
                "functions for one session are not supported: write the expression in the statement, or CREATE FUNCTION"
                " name AS ai_filter('Is {t} spam?', t)"
            )
        if word not in {"table", "view", "schema"}:
            raise UnsupportedError(_CREATE)
        if temporary and word == "schema":
            raise UnsupportedError("temporary schemas are not supported: write CREATE TEMPORARY TABLE or VIEW")
        self.at += 1
        exists_ok = self.take("if")
        if exists_ok:
            self.need("write IF NOT EXISTS", "not", "exists")
        if word == "schema":
            return Statement("create_schema", self._text, target=self._schema(), exists_ok=exists_ok)
        target = self.table()
        if word == "view":
            return self._view(target, query, or_replace=or_replace, exists_ok=exists_ok)
        return self._table(target, query, or_replace=or_replace, exists_ok=exists_ok)

    def _table(
        self, target: TableName, query: Callable[[int, str], str], *, or_replace: bool, exists_ok: bool
    ) -> Statement:
        if self.take("as"):
            found = query(self.at, "CREATE TABLE … AS")
            return Statement(
                "create_table_as", self._text, query=found, target=target, or_replace=or_replace, exists_ok=exists_ok
            )
        for word, more in (("clone", ""), ("like", " LIMIT 0")):
            if self.take(word):
                written = f"CREATE TABLE {target.name} AS SELECT * FROM {self.table().name}{more}"
                raise UnsupportedError(
                    f"{word.upper()} is not supported, because keys and defaults would be lost: write {written}"
                )
        start = self.at
        if start >= len(self.tokens) or not self.tokens[start].is_symbol("("):
            raise SqlError(_TABLE)
        self.at = closing_parenthesis(self.tokens, start) + 1
        first = self.tokens[0].start
        listed = self._text[self.tokens[start].start - first : self.tokens[self.at - 1].end - first]
        tail, keys = read_column_list(listed, target)
        tail, json_columns = without_json(tail)
        self.end("nothing can follow the column list of CREATE TABLE; with AS SELECT, leave the column list out")
        return Statement(
            "create_table",
            self._text,
            target=target,
            or_replace=or_replace,
            exists_ok=exists_ok,
            tail=tail,
            json_columns=json_columns,
            keys=keys,
        )

    def _view(
        self, target: TableName, query: Callable[[int, str], str], *, or_replace: bool, exists_ok: bool
    ) -> Statement:
        columns, self.at = read_column_names(self.tokens, self.at)
        self.need(_VIEW, "as")
        return Statement(
            "create_view",
            self._text,
            query=query(self.at, "CREATE VIEW … AS"),
            target=target,
            columns=columns,
            or_replace=or_replace,
            exists_ok=exists_ok,
        )

    def drop(self) -> Statement:
        self.at = 2
        if len(self.tokens) < 2 or not self.tokens[1].is_word("table", "view", "schema"):
            raise UnsupportedError(_DROP)
        exists_ok = self.take("if")
        if exists_ok:
            self.need("write IF EXISTS", "exists")
        what = self.tokens[1].text.lower()
        target = self._schema() if what == "schema" else self.table()
        dropped = [] if what == "schema" else [target]
        while dropped and self.symbol(","):
            dropped.append(self.table())
        if self.take("cascade") and what == "schema":
            raise UnsupportedError("DROP SCHEMA … CASCADE is not supported: drop the tables in the schema first")
        _ = self.take("restrict")
        takes = f"names with commas between them: DROP {what.upper()} a, b" if dropped else "one name"
        self.end(f"DROP {what.upper()} takes {takes}")
        kinds: dict[str, StatementKind] = {"table": "drop_table", "view": "drop_view", "schema": "drop_schema"}
        names = tuple(dict.fromkeys(dropped))
        return Statement(kinds[what], self._text, target=target, dropped=names, exists_ok=exists_ok)

    def _schema(self) -> TableName:
        parts, self.at = read_parts(self.tokens, self.at)
        if not parts:
            raise SqlError("a schema name was expected")
        return TableName(parts[-1], "")
