"""The SQL that runs a search for each query reads the table of the queries, with the WITH queries that it needs."""

import pytest

from flightllm.functions import FunctionRegistry
from flightllm.sql.scopes import read_scopes
from flightllm.sql.search_queries import SearchQueries
from flightllm.sql.source_tokens import SourceTokens, TokenRange
from flightllm.sql.tokens import tokenize

REGISTRY = FunctionRegistry.load()


@pytest.mark.parametrize(
    ("before", "source", "rows", "prefix"),
    [
        ("", "wishes w", '"wishes" AS "w"', ""),
        ("WITH a AS (SELECT 1), b AS (SELECT 2) ", "b w", '"b" AS "w"', "WITH b AS (SELECT 2) "),
        (
            "WITH a AS (SELECT 1), b(wish) AS (SELECT * FROM a) ",
            "b w",
            '"b" AS "w"',
            "WITH a AS (SELECT 1), b(wish) AS (SELECT * FROM a) ",
        ),
        ("", "(SELECT 1) AS w (wish)", '(SELECT 1) AS "w"(wish)', ""),
    ],
)
def test_pairs_sql(before: str, source: str, rows: str, prefix: str) -> None:
    """The table of the queries is read under its alias, and only WITH queries that it reads come first."""
    sql = f"{before}SELECT 1 FROM {source} JOIN fruit f ON search(w.wish)"
    tokens = tokenize(sql)
    scopes = read_scopes(sql, tokens)
    call = next(at for at, token in enumerate(tokens) if token.is_word("search"))
    queries = SearchQueries(SourceTokens(sql, tokens, scopes.closing), scopes, REGISTRY)
    found = queries.pairs_sql(call, TokenRange(call + 2, call + 5), "search(query)", "f")
    distinct = f"SELECT DISTINCT w.wish AS query FROM {rows} WHERE (w.wish) IS NOT NULL"
    assert found == f"{prefix}SELECT query, search(query) AS __near FROM ({distinct}) AS queries"
