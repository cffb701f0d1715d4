"""Only texts that can ask the catalog are parsed for it."""

import pytest

from flightllm.pg_catalog import parsing
from flightllm.pg_catalog.parsing import asks_catalog
from flightllm.pg_catalog.words import WORDS


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
    assert asks_catalog(sql)


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
    assert not asks_catalog(sql)


def test_words() -> None:
    """The name of a column such as `region` is no word of the catalog."""
    assert WORDS.search("SELECT region, regional, x_reg FROM shops WHERE registered") is None


def test_kept_trees() -> None:
    """A long text's tree does not stay."""
    before = parsing._kept.cache_info().currsize
    assert asks_catalog(f"SELECT '{'x' * 10_000}' FROM pg_class")
    assert parsing._kept.cache_info().currsize == before
