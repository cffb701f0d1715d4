"""Statements about vector indexes, and what is wrong with others."""

import pytest

from flightllm.common.names import TableName
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


def test_create() -> None:
    """All parts, in any case; names as SQL has them."""
    statement = classify(
        ParsedText("""create OR REPLACE Vector INDEX "My Plots" ON x.Movies(Movie_Info)
        OPTIONS (type 'ivf', lists = 64, Metric cosine, columns 'a, B')""")
    )
    assert (statement.kind, statement.key) == ("create_index", "My Plots")
    assert (statement.target, statement.columns) == (TableName("x", "movies"), ("movie_info",))
    assert statement.options == {"type": "ivf", "lists": "64", "metric": "cosine", "columns": "a, B"}
    assert statement.or_replace
    assert statement.is_update
    plain = classify(ParsedText("CREATE VECTOR INDEX IF NOT EXISTS i ON t(c);"))
    assert (plain.options, plain.exists_ok, plain.or_replace) == ({}, True, False)


def test_others() -> None:
    """DROP, REFRESH and SHOW."""
    assert classify(ParsedText("DROP VECTOR INDEX IF EXISTS i")).exists_ok
    assert (classify(ParsedText("DROP VECTOR INDEX I")).kind, classify(ParsedText("DROP VECTOR INDEX I")).key) == (
        "drop_index",
        "i",
    )
    assert classify(ParsedText("REFRESH VECTOR INDEX i")).kind == "refresh_index"
    assert classify(ParsedText("SHOW VECTOR INDEXES")).query == 'SELECT * FROM "flightllm"."system"."vector_indexes"'


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE VECTOR INDEX ON t(c)", "CREATE .OR REPLACE. VECTOR INDEX name ON"),
        ("CREATE VECTOR INDEX a.b ON t(c)", "one part"),
        ("CREATE VECTOR INDEX i", "ON table.column. was expected"),
        ("CREATE VECTOR INDEX i ON t", "one column in parentheses"),
        ("CREATE VECTOR INDEX i ON t(a, b)", "one column in parentheses"),
        ("CREATE VECTOR INDEX i ON t(a) USING ivf", "'USING' was not expected"),
        ("CREATE VECTOR INDEX i ON t(a) OPTIONS", "OPTIONS needs a list"),
        ("CREATE VECTOR INDEX i ON t(a) OPTIONS (type)", "a name and a value"),
        ("CREATE VECTOR INDEX i ON t(a) OPTIONS (type 'ivf'", "expected , or .+ after the option type"),
        ("CREATE VECTOR INDEX i ON t(a) OPTIONS (type 'ivf', type 'flat')", "given twice"),
        ("DROP VECTOR INDEX", "write DROP VECTOR INDEX name"),
        ("REFRESH VECTOR INDEX i CONCURRENTLY", "'CONCURRENTLY' was not expected"),
        ("REFRESH TABLE t", "no statement starts with"),
        ("INSTALL flock", "no statement starts with 'INSTALL': leave it out"),
        ("CACHE TABLE t", "write CREATE TABLE kept AS SELECT"),
        ("PRAGMA threads = 4", "write SHOW flightllm.timeout"),
    ],
)
def test_what_is_wrong(sql: str, said: str) -> None:
    """Each error says how to write it."""
    with pytest.raises(SqlError, match=said):
        classify(ParsedText(sql))


def test_other_indexes() -> None:
    """CREATE INDEX names what there is."""
    with pytest.raises(UnsupportedError, match="CREATE VECTOR INDEX name ON"):
        classify(ParsedText("CREATE INDEX i ON t(c)"))
