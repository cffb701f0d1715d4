"""What the catalog tells of its tables, and the contexts it makes."""

from pathlib import Path

import pytest

from flightllm.catalog import Catalog
from flightllm.common.names import TableName
from flightllm.errors import NotFoundError
from tests.catalogs import ROWS, ingest, read, register_file, run, write


def test_metadata(catalog: Catalog, tmp_path: Path) -> None:
    """All tables are listed with type and schema, the system tables too; SQL's own listing agrees."""
    register_file(catalog, "f", write(tmp_path / "f.parquet", ROWS))
    run(catalog, "CREATE TABLE m (a INT)", "CREATE VIEW v AS SELECT * FROM m")
    assert [(str(info.name.display), info.type) for info in catalog.tables()] == [
        ("f", "BASE TABLE"),
        ("m", "BASE TABLE"),
        ("v", "VIEW"),
        ("system.ai_calls", "SYSTEM TABLE"),
        ("system.queries", "SYSTEM TABLE"),
    ]
    listed = read(
        catalog, "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'"
    )
    assert sorted(row["table_name"] for row in listed) == sorted(info.name.name for info in catalog.tables())
    assert catalog.table("system.queries").name == TableName("system", "queries")
    with pytest.raises(NotFoundError, match="no table 'nope'; the tables are: f, m, v"):
        catalog.columns_of("nope")


def test_planning_context_leaves_filters_in_place(catalog: Catalog) -> None:
    """A planning context keeps a predicate above the join; a full one pushes it below."""
    ingest(catalog, "t", {"a": [1], "b": [1]})
    sql = "SELECT x.a FROM t x JOIN t y ON x.a = y.a WHERE x.b > 5"
    plans = [
        catalog.context(planning=planning).sql(sql).optimized_logical_plan().display_indent()
        for planning in (True, False)
    ]
    assert [plan.index("Filter") < plan.index("Join") for plan in plans] == [True, False]
