"""Views: plain ones follow their tables, those with AI calls are put into queries as text."""

import pyarrow as pa
import pytest

from flightllm.catalog import Catalog
from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from tests.catalogs import ingest, read, run


def test_views_follow_their_tables(catalog: Catalog) -> None:
    """A view sees appended, replaced and re-created tables, and other views; without its table it is an error."""
    run(
        catalog,
        "CREATE TABLE t (a INT)",
        "CREATE VIEW v (b) AS SELECT a + 1 FROM t",
        "CREATE VIEW w AS SELECT b FROM v",
    )
    run(catalog, "INSERT INTO t VALUES (1)")
    assert read(catalog, "SELECT * FROM w") == [{"b": 2}]
    ingest(catalog, "t", {"a": [5]}, "replace")
    assert read(catalog, "SELECT * FROM w") == [{"b": 6}]
    run(catalog, "DROP TABLE t")
    with pytest.raises(SqlError, match=r"public\.w' not found"):
        read(catalog, "SELECT * FROM w")
    ingest(catalog, "t", {"a": [8]})
    assert read(catalog, "SELECT * FROM w") == [{"b": 9}]
    with pytest.raises(SqlError, match="cannot read from itself"):
        run(catalog, "CREATE OR REPLACE VIEW v AS SELECT * FROM public.v")
    with pytest.raises(InvalidInputError, match="write DROP VIEW"):
        run(catalog, "DROP TABLE v")


def test_only_views_of_a_changed_table_are_planned_again(catalog: Catalog) -> None:
    """A change leaves the plans of views alone that read other tables; names with quotes in them are found too."""
    run(
        catalog,
        'CREATE TABLE "o""dd" (a INT)',
        "CREATE TABLE other (a INT)",
        'CREATE VIEW v AS SELECT * FROM "o""dd"',
        "CREATE VIEW w AS SELECT count(*) AS n FROM V",
        "CREATE VIEW apart AS SELECT * FROM OTHER",
    )
    everything = "SELECT * FROM v, w, apart"
    read(catalog, everything)
    before = {name.name: entry.plan.planned for name, entry in catalog.store.entries.items() if entry.kind == "view"}
    run(catalog, 'INSERT INTO "o""dd" VALUES (1)')
    read(catalog, everything)
    after = {name.name: entry.plan.planned for name, entry in catalog.store.entries.items() if entry.kind == "view"}
    assert {name for name in after if after[name] is not before[name]} == {"v", "w"}
    assert None not in after.values()
    assert read(catalog, "SELECT n FROM w") == [{"n": 1}]


@pytest.mark.parametrize(
    ("sql", "inlined"),
    [
        ("SELECT 1 FROM t", "SELECT 1 FROM t"),
        ("SELECT * FROM v x", "WITH \"v\" AS (SELECT a, f('p', a) AS g FROM t) SELECT * FROM v x"),
        ("SELECT * FROM flightllm.public.V", "WITH \"v\" AS (SELECT a, f('p', a) AS g FROM t) SELECT * FROM V"),
        ("SELECT * FROM other.v", "SELECT * FROM other.v"),
        ("WITH v AS (SELECT 1) SELECT * FROM v", "WITH v AS (SELECT 1) SELECT * FROM v"),
        (
            "WITH v AS (SELECT public.v.a FROM public.v) SELECT v.a FROM v",
            'WITH "v_1" AS (SELECT a, f(\'p\', a) AS g FROM t), v AS (SELECT v.a FROM "v_1" AS "v") SELECT v.a FROM v',
        ),
        (
            "WITH v AS (SELECT * FROM v AS x) SELECT * FROM v",
            'WITH "v_1" AS (SELECT a, f(\'p\', a) AS g FROM t), v AS (SELECT * FROM "v_1" AS x) SELECT * FROM v',
        ),
    ],
)
def test_ai_views_are_inlined(catalog: Catalog, sql: str, inlined: str) -> None:
    """A query that names an AI view gets it as a WITH query; qualified names lose their schema; own names win."""
    schema = pa.schema([("a", pa.int64()), ("g", pa.string())])
    catalog.create_ai_view(classify(ParsedText("CREATE VIEW v AS SELECT a, f('p', a) AS g FROM t -- note")), schema)
    assert catalog.inline_views(ParsedText(sql)).sql == inlined


def test_ai_views_of_views_and_with(catalog: Catalog) -> None:
    """Views come in order of need, before the query's own WITH list, RECURSIVE kept."""
    schema = pa.schema([("g", pa.string())])
    catalog.create_ai_view(classify(ParsedText("CREATE VIEW v AS SELECT f(a) AS g FROM t")), schema)
    catalog.create_ai_view(classify(ParsedText("CREATE VIEW w (h) AS SELECT g FROM public.v")), schema)
    both = '"v" AS (SELECT f(a) AS g FROM t), "w" ("h") AS (SELECT g FROM v)'
    assert catalog.inline_views(ParsedText("SELECT * FROM w")).sql == f"WITH {both} SELECT * FROM w"
    assert catalog.inline_views(ParsedText("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM w, q")).sql == (
        f"WITH RECURSIVE {both}, q AS (SELECT 1) SELECT * FROM w, q"
    )
    inner = "(WITH v AS (SELECT 1) SELECT * FROM v)"
    apart = '"v_1" AS (SELECT f(a) AS g FROM t), "w" ("h") AS (SELECT g FROM "v_1" AS "v")'
    assert catalog.inline_views(ParsedText(f"SELECT * FROM w, {inner}")).sql == f"WITH {apart} SELECT * FROM w, {inner}"
    assert catalog.table("w").type == "VIEW"
    assert catalog.table("w").schema.names == ["h"]
    run(catalog, "DROP VIEW w")
    assert catalog.inline_views(ParsedText("SELECT * FROM w")).sql == "SELECT * FROM w"


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT CASE WHEN a > 1 THEN a ELSE b END AS x FROM t", pa.float64()),
        ("SELECT a AS x FROM t UNION ALL SELECT b FROM t", pa.float64()),
        ("SELECT CASE WHEN a > 1 THEN a ELSE 'none' END AS x FROM t", pa.string()),
    ],
)
def test_types_of_branches(catalog: Catalog, query: str, kind: pa.DataType) -> None:
    """A view says of a column the type that its rows have, whatever its first part has; so do views of it."""
    ingest(catalog, "t", {"a": [1], "b": [2.5]})
    run(catalog, f"CREATE VIEW v AS {query}", "CREATE VIEW w AS SELECT * FROM v")
    for name in ("v", "w"):
        assert catalog.table(name).schema.types == [kind]
        assert catalog.context().table(name).to_arrow_table().schema.types == [kind]
