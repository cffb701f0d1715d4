"""Only texts that can ask the catalog are parsed for it."""

from pathlib import Path

import pytest

from flightllm.pg_catalog import parsing
from flightllm.pg_catalog.parsing import Trees, read
from flightllm.pg_catalog.words import WORDS
from tests.databases import ask, open_database


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM pg_class",
        " -- first\n/* second */ ((SELECT oid FROM pg_class))",
        "WITH a AS (SELECT 1) SELECT * FROM a, pg_class",
        "TABLE pg_class",
        "SELECT 't'::REGCLASS",
        "SELECT to_regtype('int4')",
    ],
)
def test_queries(sql: str) -> None:
    """These texts ask the catalog."""
    asked = read(sql)
    assert asked is not None
    assert asked.asks(as_postgres=False)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES ('pg_class')",
        "/* SELECT */ UPDATE t SET a = 'pg_class'",
        "CREATE TABLE pg_t AS SELECT 1",
        f"SELECT * FROM pg_class WHERE relname = '{'x' * 70_000}'",
        "/*" * 20_000 + " pg_class",
    ],
)
def test_other_texts(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes and long texts are not even parsed."""
    monkeypatch.setattr(parsing, "CatalogDialect", lambda: pytest.fail("the text was parsed"))
    assert read(sql) is None


def test_words() -> None:
    """The name of a column such as `region` is no word of the catalog."""
    assert WORDS.search("SELECT region, regional, x_reg FROM shops WHERE registered") is None


@pytest.mark.parametrize("length", [100, 10_000, 40_000])
def test_kept_trees(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """The trees of few characters stay, and a text that stayed is parsed once."""
    trees = Trees(65_536)
    texts = [f"SELECT '{index}{'x' * length}' FROM pg_class" for index in range(5)]
    for text in texts:
        assert trees.of(text) is not None
        assert trees.size <= 65_536
    monkeypatch.setattr(parsing, "CatalogDialect", lambda: pytest.fail("the text was parsed"))
    assert trees.of(texts[-1]) is not None


def test_one_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text is parsed once, from its plan to its rows."""
    pytest.importorskip("duckdb")
    texts: list[str] = []
    parsed = parsing._parsed

    def noted(sql: str) -> object:
        texts.append(sql)
        return parsed(sql)

    monkeypatch.setattr(parsing, "_parsed", noted)
    database = open_database(tmp_path)
    sql = f"SELECT count(*) FROM pg_class WHERE relname <> '{'x' * 20_000}'"
    session = database.session()
    session.describe(sql)
    assert ask(session, sql).table.num_rows == 1
    assert texts == [sql]
    database.close()
