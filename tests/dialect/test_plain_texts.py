"""Texts of dialects with escapes: the words beside them do not change how they are read."""

import pytest

from flightllm.dialect.plain_texts import plain_texts
from tests.databases import ask, small_database


@pytest.mark.parametrize(
    ("dialect", "sql", "ours"),
    [
        ("bigquery", r"SELECT 'a\tb', REPEAT('-', 2)", "SELECT 'a\tb', REPEAT('-', 2)"),
        ("bigquery", r"SELECT SAFE.REPEAT('a', 2), 'it\'s', r'\d+'", r"SELECT SAFE.REPEAT('a', 2), 'it''s', '\d+'"),
        ("snowflake", r"SELECT 'a\tb' AS t, id AS call", "SELECT 'a\tb' AS t, id AS call"),
        ("databricks", r"INSERT INTO t SELECT 'a\nb', x AS explain", "INSERT INTO t SELECT 'a\nb', x AS explain"),
        ("spark", r"SELECT ';', optimize, 'a\\b'", r"SELECT ';', optimize, 'a\b'"),
        ("bigquery", "SELECT loop, prepare # it's", "SELECT loop, prepare "),
        ("bigquery", r"SELECT 'a\tb'; CALL f('a\tb')", r"SELECT 'a\tb'; CALL f('a\tb')"),
        ("snowflake", r"CALL f('a\tb')", r"CALL f('a\tb')"),
    ],
)
def test_words_of_statements(dialect: str, sql: str, ours: str) -> None:
    """A word that begins some statements is a name elsewhere; only a statement that it begins stays as it is."""
    assert plain_texts(sql, dialect).text == ours


def test_rows_beside_repeat(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The escapes of BigQuery have their values beside REPEAT, as its lexical structure says."""
    database = small_database(tmp_path_factory.mktemp("plain_texts"))
    rows = ask(database.session(), r"SELECT 'a\tb\x41' AS t, REPEAT('\\', 2) AS d", dialect="bigquery").rows
    database.close()
    assert rows == [{"t": "a\tbA", "d": "\\\\"}]
