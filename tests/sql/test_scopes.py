"""The names in FROM mean the WITH query that the SQL standard says."""

import pytest

from flightllm.errors import SqlError
from flightllm.sql.scopes import begins_query, read_scopes
from flightllm.sql.tokens import tokenize


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("WITH t AS (SELECT 1) SELECT 1 FROM t", ["t"]),
        ("WITH t AS (SELECT 1 FROM t) SELECT 1 FROM t", ["", "t"]),
        ("WITH RECURSIVE t AS (SELECT 1 FROM t UNION SELECT 2 FROM t) SELECT 1 FROM t", ["", "t", "t"]),
        ("SELECT 1 FROM (WITH t AS (SELECT 1) SELECT 1 FROM t) q, t", ["t", "q", ""]),
        ("WITH a AS (WITH t AS (SELECT 1) SELECT 1 FROM t) SELECT 1 FROM a, t", ["t", "a", ""]),
        ("WITH a AS (SELECT 1 FROM t), t AS (SELECT 1) SELECT 1 FROM a, t", ["", "a", "t"]),
        ("WITH t AS (SELECT 1) SELECT 1 FROM s.t, (SELECT 1 FROM t) q", ["", "t", "q"]),
    ],
)
def test_common_table(sql: str, meant: list[str]) -> None:
    """A name means the innermost WITH query that is visible at its place; a subquery has its own name here."""
    scopes = read_scopes(sql, tokenize(sql))
    tables = {table.first: table for scope in scopes.of for table in scope.tables}
    found = []
    for first, table in sorted(tables.items()):
        common = scopes.common_table(table.parts, first)
        found.append(table.alias if table.subquery else common.name if common else "")
    assert sorted(found) == sorted(meant)


def test_innermost_hides_others() -> None:
    """An inner WITH query hides one of the same name around it."""
    sql = "WITH t AS (SELECT 1) SELECT 1 FROM (WITH t (a) AS (SELECT 2) SELECT 1 FROM t) q"
    scopes = read_scopes(sql, tokenize(sql))
    inner = next(table for scope in scopes.of for table in scope.tables if table.name == "t")
    found = scopes.common_table(inner.parts, inner.first)
    assert found is not None
    assert found.columns is not None


def test_brackets() -> None:
    """Each closing bracket has its opening one, and a table without an alias has no list of columns."""
    sql = "SELECT f(a[1]) FROM t JOIN o USING (id)"
    scopes = read_scopes(sql, tokenize(sql))
    assert {end: start for start, end in scopes.closing.items()} == scopes.opening
    assert [table.columns for table in scopes.of[-1].tables] == [None, None]


def test_bracket_around_a_token() -> None:
    """The bracket around a token is the innermost one; a bracket itself is in the next one, and open ones are none."""
    sql = "( a [ 1 ] ( ) ) b { ( c }"
    with pytest.raises(SqlError, match="no opening bracket"):
        read_scopes(sql, tokenize(sql))
    sql = "( a [ 1 ] ( ) ) b { c ( d"
    assert read_scopes(sql, tokenize(sql)).around == [None, 0, 0, 2, 0, 0, 0, None, *[None] * 5]


@pytest.mark.parametrize(
    ("sql", "named", "inside"),
    [
        ("DELETE FROM t USING u, s.v AS w WHERE a = b", "t u s", "t u v"),
        ("DELETE FROM t AS x USING (SELECT a, b FROM u) q JOIN v USING (a), w", "t ( u v w", "t (…) u v w"),
        ("WITH c AS (SELECT a FROM u) DELETE FROM t USING c RETURNING a, b", "c u t c", "u t c"),
        ("MERGE INTO t USING u JOIN v USING (a) ON a = b WHEN MATCHED THEN DELETE", "t u v", "u v"),
        ("DELETE FROM t USING (u JOIN v USING (a)) WHERE a = b", "t ( u v", "t u v"),
        ("SELECT a FROM t JOIN u USING (a), v", "t u v", "t u v"),
        ("SELECT a FROM s.table t", "s", "table"),
        ("FROM t |> EXTEND a AS x, b AS y |> JOIN u ON true", "t u", "t u"),
    ],
)
def test_tables(sql: str, named: str, inside: str) -> None:
    """USING of DELETE and MERGE begins tables, USING of a join does not; no table follows EXTEND."""
    tokens = tokenize(sql)
    scopes = read_scopes(sql, tokens)
    assert [token.text for token, is_table in zip(tokens, scopes.names_table, strict=True) if is_table] == named.split()
    tables = {table.first: table for scope in scopes.of for table in scope.tables}
    names = ["(…)" if tables[at].subquery else tables[at].parts[-1] for at in sorted(tables)]
    assert names == inside.split()


@pytest.mark.parametrize(
    ("sql", "clauses"),
    [
        ("SELECT f(a) FROM t WHERE b", "select select select - - from from where where"),
        ("UPDATE t SET a = 1 FROM u |> b", "update update set set set set from from |> |>"),
        ("DELETE FROM t USING u", "- from from from from"),
    ],
)
def test_clauses(sql: str, clauses: str) -> None:
    """Each token has the word of its clause, in brackets only after a word there."""
    found = read_scopes(sql, tokenize(sql)).clauses
    assert [clause or "-" for clause in found] == clauses.split()


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("WITH q AS (SELECT 1 FROM u) DELETE FROM ONLY t USING u", "t"),
        ("WITH q AS (VALUES (1)) UPDATE s.t SET a = 1 FROM u", "t"),
        ("EXPLAIN UPDATE ONLY (t) SET a = 1", "t"),
        ("DELETE WHERE true", None),
    ],
)
def test_changed_table(sql: str, name: str | None) -> None:
    """UPDATE and DELETE change the first table after their verb."""
    tokens = tokenize(sql)
    verb = next(at for at, token in enumerate(tokens) if token.is_word("update", "delete"))
    found = read_scopes(sql, tokens).changed_table(verb)
    assert (found and found.parts[-1]) == name


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("(SELECT 1)", True),
        ("((SELECT 1))", True),
        ("((SELECT 1) UNION SELECT 2)", True),
        ("((VALUES (1)) LIMIT 1)", True),
        ("((SELECT 1) a JOIN b ON true)", False),
        ("(a)", False),
        ("(" * 90 + "SELECT 1" + ")" * 90, False),
    ],
)
def test_begins_query(text: str, query: bool) -> None:
    """A parenthesis that encloses a query differs from one that encloses joins."""
    tokens = tokenize(text)
    assert begins_query(tokens, read_scopes(text, tokens).closing, 0) is query
