"""Plans of views: made at the first look-up, within limits, and never of an older state than the reader's."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from flightllm.access.rights import Rights
from flightllm.access.store import AccessSnapshot
from flightllm.catalog import Catalog
from flightllm.catalog.scoped import PrincipalScopes
from flightllm.common.names import TableName
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import LimitExceededError, SqlError, UnknownTableError
from flightllm.observe.query_log import QueryLog
from flightllm.sql.classify import classify
from flightllm.sql.grants import Grant
from flightllm.sql.parsed_text import ParsedText
from tests.catalogs import ingest, read, run

GROWING: dict[str, Callable[[int], str]] = {
    "deep": lambda i: f"SELECT a{'+1' * 400} AS a FROM v{i - 1}",
    "doubled": lambda i: f"SELECT * FROM v{i - 1} UNION ALL SELECT * FROM (v{i - 1})",
    "joined": lambda i: f"SELECT x.a FROM v{i - 1} x, public.v{i - 1} y, 'v{i - 1}' z",
    "with": lambda i: f"WITH q AS (SELECT a FROM v{i - 1}) SELECT a FROM q UNION ALL SELECT a FROM q",
}


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    """Return what opens a catalog over the same folder again, after the one before was closed."""
    opened: list[Catalog] = []

    def another(sql_terms: int = 2_000) -> Catalog:
        for catalog in opened:
            catalog.close()
        opened.append(Catalog(LimitsConfig(sql_terms=sql_terms), QueryLog(), tmp_path / "tables"))
        return opened[-1]

    yield another
    opened[-1].close()


def make_views(catalog: Catalog, build: Callable[[int], str], count: int) -> None:
    """Make a table with one row and views v0 to v(count - 1), each over the one before."""
    ingest(catalog, "t", {"a": [1]}, "replace")
    run(catalog, "CREATE OR REPLACE VIEW v0 AS SELECT a FROM t")
    for i in range(1, count):
        run(catalog, f"CREATE OR REPLACE VIEW v{i} AS {build(i)}")


def planned(catalog: Catalog) -> set[str]:
    """Return the names of the views whose plans are kept."""
    return {name.name for name, entry in catalog.store.entries.items() if entry.plan.planned is not None}


@pytest.mark.parametrize("shape", GROWING)
def test_views_over_views_are_bounded(catalog: Catalog, shape: str) -> None:
    """Views that grow with each level are refused by the limit of one text; those below can be read."""
    with pytest.raises(LimitExceededError, match=r"the view 'v\d+' and the views it reads .* sql_terms = 2,000 "):
        make_views(catalog, GROWING[shape], 40)
    made = len(catalog.store.entries) - 1
    assert 2 < made < 40
    assert read(catalog, f"SELECT count(*) AS n FROM v{made - 1}")[0]["n"] > 0


def test_views_that_nest_queries_are_bounded(catalog: Catalog) -> None:
    """Views that nest queries in expressions are refused at the depth at which those of one text are."""
    with pytest.raises(LimitExceededError, match=r"the view 'v17' and the views it reads nest queries .* 17 levels"):
        make_views(catalog, lambda i: f"SELECT a FROM t WHERE a IN (SELECT a FROM v{i - 1})", 40)
    with pytest.raises(LimitExceededError, match="the query and the views it reads nest queries"):
        catalog.inline_views(ParsedText("SELECT (SELECT max(a) FROM v16)"))
    assert read(catalog, "SELECT * FROM v8") == [{"a": 1}]


def test_columns_named_like_views_do_not_count(catalog: Catalog) -> None:
    """Only what stands where tables do counts, not columns of the same name, however often."""
    ingest(catalog, "t", {"v0": [1]})
    run(catalog, "CREATE VIEW v0 AS SELECT v0 FROM t")
    for i in range(1, 30):
        run(catalog, f"CREATE VIEW v{i} AS SELECT v{i - 1}.v0, abs(v{i - 1}.v0) AS b, v0 AS c FROM v{i - 1}")
    assert read(catalog, "SELECT v0 FROM v29") == [{"v0": 1}]


def test_queries_over_views_are_bounded(catalog: Catalog) -> None:
    """A query may not use large views so often that its plan has too many parts; a few times it may."""
    make_views(catalog, GROWING["doubled"], 9)
    once = "SELECT a FROM v8"
    assert catalog.inline_views(ParsedText(f"{once} UNION ALL {once}")).sql
    with pytest.raises(LimitExceededError, match=r"the query and the views it reads are .* sql_terms = 2,000 "):
        catalog.inline_views(ParsedText(" UNION ALL ".join([once] * 5)))


def test_nothing_is_planned_at_start_nor_by_changes(reopen: Callable[..., Catalog]) -> None:
    """Views are planned when they are looked up, with those they read, and stay planned until a table changes."""
    make_views(reopen(), lambda i: f"SELECT a + 1 AS a FROM v{i - 1}", 60)
    catalog = reopen()
    assert planned(catalog) == set()
    assert read(catalog, "SELECT * FROM v3") == [{"a": 4}]
    assert planned(catalog) == {"v0", "v1", "v2", "v3"}
    ingest(catalog, "t", {"a": [5]}, "append")
    assert planned(catalog) == set()
    assert read(catalog, "SELECT * FROM v59 ORDER BY a") == [{"a": 60}, {"a": 64}]


def test_views_beyond_the_limit_are_kept(reopen: Callable[..., Catalog]) -> None:
    """A server starts with views that are too large for it; reading one fails, those below and lists of tables work."""
    make_views(reopen(), lambda i: f"SELECT a + 1 AS a FROM v{i - 1}", 60)
    catalog = reopen(sql_terms=400)
    with pytest.raises(LimitExceededError, match="the query and the views it reads"):
        catalog.inline_views(ParsedText("SELECT * FROM v59"))
    with pytest.raises(LimitExceededError, match="the view 'v59' and the views it reads are"):
        read(catalog, "SELECT * FROM v59")
    assert read(catalog, "SELECT * FROM v1") == [{"a": 2}]
    listed = read(catalog, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    assert {"t", "v0", "v1"} <= {row["table_name"] for row in listed}
    assert "v59" not in {row["table_name"] for row in listed}
    assert catalog.table("v59").schema.names == []
    run(catalog, "CREATE OR REPLACE VIEW v30 AS SELECT 7 AS a")
    assert read(catalog, "SELECT * FROM v33") == [{"a": 10}]


def test_views_of_an_older_server_pass_the_passes(tmp_path: Path, reopen: Callable[..., Catalog]) -> None:
    """A view can have a predicate that DataFusion reads wrongly, because an older server stored its text as sent."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [1, 2]})
    run(catalog, "CREATE VIEW v AS SELECT a FROM t")
    run(catalog, "CREATE VIEW w (b) AS SELECT a FROM v UNION ALL SELECT a FROM t EXCEPT ALL SELECT a FROM v")
    run(catalog, "CREATE VIEW passed AS SELECT a ^ 3 AS a FROM t")
    reopen()
    for path in (tmp_path / "tables").iterdir():
        if path.is_file() and "SELECT a FROM t" in text(path):
            document = json.loads(path.read_text())
            for entry in document["entries"]:
                if entry["name"] != "passed":
                    entry.pop("passed", None)
                if entry["name"] == "v":
                    entry["query"] = "SELECT a FROM t WHERE a IS DISTINCT FROM 1 AND a < 2"
            path.write_text(json.dumps({key: document[key] for key in ("version", "revision", "schemas", "entries")}))
    catalog = reopen()
    assert read(catalog, "SELECT * FROM v") == []
    assert read(catalog, "SELECT b FROM w ORDER BY b") == [{"b": 1}, {"b": 2}]
    assert read(catalog, "SELECT a FROM passed ORDER BY a") == [{"a": 1}, {"a": 2}]  # DataFusion's ^ is no power


def test_views_pass_the_newer_passes(tmp_path: Path, reopen: Callable[..., Catalog]) -> None:
    """The text of a view that an earlier server stored after its passes only needs those that are newer."""
    catalog = reopen()
    ingest(catalog, "t", {"a": [3.5]})
    run(catalog, "CREATE VIEW v AS SELECT 1 AS a, 2 AS b FROM t")
    run(catalog, "CREATE VIEW total AS SELECT 1 AS n FROM t")
    reopen()
    for path in (tmp_path / "tables").iterdir():
        if path.is_file() and "AS b FROM t" in text(path):
            document = json.loads(path.read_text())
            for entry in document["entries"]:
                if entry["name"] == "v":
                    entry |= {
                        "query": "SELECT CAST(CAST(a AS decimal(3, 1)) AS int) AS a, 5 ^ 3 AS b FROM t",
                        "passed": True,
                    }
                if entry["name"] == "total":
                    entry |= {"query": "SELECT count(*) AS n FROM t", "passed": 3}
            path.write_text(json.dumps({key: document[key] for key in ("version", "revision", "schemas", "entries")}))
    catalog = reopen()
    assert read(catalog, "SELECT * FROM v") == [{"a": 4, "b": 6}]
    assert read(catalog, "SELECT n FROM t LEFT JOIN total ON false") == [{"n": None}]


def test_circular_views_of_an_older_server(tmp_path: Path, reopen: Callable[..., Catalog]) -> None:
    """Views that read each other, which could be made once, do no harm: reading one is an error that names both."""
    make_views(reopen(), lambda i: f"SELECT a FROM v{i - 1}", 2)
    reopen()
    found = next(path for path in (tmp_path / "tables").iterdir() if path.is_file() and "SELECT a FROM t" in text(path))
    document = json.loads(found.read_text())
    for entry in document["entries"]:
        if entry["name"] == "v0":
            entry["query"] = "SELECT a FROM v1"
    for key in document.keys() - {"version", "revision", "schemas", "entries"}:  # an older server wrote no others
        del document[key]
    for path in (tmp_path / "tables").iterdir():
        if path.is_file() and "SELECT a FROM t" in text(path):
            path.write_text(json.dumps(document))
    catalog = reopen()
    with pytest.raises(SqlError, match="the views 'v1' and 'v0' cannot read from each other"):
        read(catalog, "SELECT * FROM v1")
    run(catalog, "CREATE OR REPLACE VIEW v0 AS SELECT a FROM t")
    assert read(catalog, "SELECT * FROM v1") == [{"a": 1}]


def text(path: Path) -> str:
    """Return what a file says."""
    return path.read_text(errors="replace")


def test_readers_see_what_was_changed_before(catalog: Catalog) -> None:
    """While tables are replaced, each reader of a view over views sees at least the rows there were when it began."""
    ingest(catalog, "t", {"a": [0]})
    run(catalog, *(f"CREATE VIEW v{i} AS SELECT a FROM {f'v{i - 1}' if i else 't'}" for i in range(8)))
    done, wrong = [0], list[tuple[int, int]]()

    def reader() -> None:
        while done[0] < 40:
            least = done[0]
            seen = read(catalog, "SELECT a FROM v7")[0]["a"]
            if seen < least:
                wrong.append((least, seen))

    readers = [Thread(target=reader) for _ in range(3)]
    for thread in readers:
        thread.start()
    for i in range(1, 41):
        ingest(catalog, "t", {"a": [i]}, "replace")
        done[0] = i
    for thread in readers:
        thread.join()
    assert wrong == []


def test_a_view_is_planned_outside_the_lock(catalog: Catalog) -> None:
    """A view is read while somebody holds the store's lock, in a change that takes long."""
    make_views(catalog, lambda i: f"SELECT a FROM v{i - 1}", 3)
    found: list[object] = []
    with catalog.store.lock:
        reader = Thread(target=lambda: found.append(read(catalog, "SELECT * FROM v2")))
        reader.start()
        reader.join(30)
    assert found == [[{"a": 1}]]


def test_an_older_state_plans_its_own_views(catalog: Catalog) -> None:
    """Whoever still holds the entries of an earlier state gets that state's rows, before and after others read."""
    make_views(catalog, lambda i: f"SELECT a FROM v{i - 1}", 2)
    before, name = catalog.store.entries, TableName("public", "v1")
    with catalog.reading():
        ingest(catalog, "t", {"a": [2], "b": [3]}, "replace")
        run(catalog, "CREATE OR REPLACE VIEW v0 AS SELECT b, a FROM t", "CREATE OR REPLACE VIEW v1 AS SELECT * FROM v0")
        assert read(catalog, "SELECT * FROM v1") == [{"b": 3, "a": 2}]
        plan = catalog.store.plans.planned(before[name], before).provider
        assert catalog.context().read_table(plan).to_pylist() == [{"a": 1}]
        assert read(catalog, "SELECT * FROM v1") == [{"b": 3, "a": 2}]


def test_views_in_a_principals_hands(catalog: Catalog) -> None:
    """What somebody sees is planned at look-up too; a view over another that it may not read cannot be read."""
    make_views(catalog, lambda i: f"SELECT a FROM v{i - 1}", 3)
    scopes = PrincipalScopes(catalog)

    def of(*names: str) -> Catalog:
        grants = frozenset(Grant("ann", "SELECT", "TABLE", "public", name) for name in names)
        return scopes.of(Rights.of(Principal("ann", "readonly"), AccessSnapshot(grants=grants)))

    mine = of("t", "v0", "v1", "v2")
    assert read(mine, "SELECT * FROM v2") == [{"a": 1}]
    assert mine.table("v2").schema.names == ["a"]
    partly = of("t", "v0", "v2")
    assert [info.name.name for info in partly.tables() if info.name.schema == "public"] == ["t", "v0"]
    assert read(partly, "SELECT * FROM v0") == [{"a": 1}]
    with pytest.raises(UnknownTableError, match="not found"):
        read(partly, "SELECT * FROM v2")


def test_views_of_the_servers_own_tables_are_alive(catalog: Catalog) -> None:
    """Views of system tables and of information_schema, through other views too, show what is there now."""
    names = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
    run(
        catalog,
        f"CREATE VIEW listed AS {names}",
        "CREATE VIEW counted AS SELECT count(*) AS n FROM listed WHERE name LIKE 't%'",
        "CREATE VIEW plain AS SELECT 1 AS a",
        "CREATE VIEW queries AS SELECT count(*) AS n FROM flightllm.system.queries",
    )
    log = catalog.store.system
    assert isinstance(log, QueryLog)
    for count in range(3):
        assert read(catalog, "SELECT n FROM counted") == [{"n": count}]
        assert read(catalog, "SELECT n FROM queries") == [{"n": count}]
        run(catalog, f"CREATE TABLE t{count} (a INT)")
        log.start("SELECT 1")
    assert read(catalog, "SELECT a FROM plain") == [{"a": 1}]
    assert planned(catalog) == {"plain"}


def test_views_that_list_tables_list_views(catalog: Catalog) -> None:
    """A view over information_schema has what a query of it has, views that are not planned yet and itself too."""
    names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    columns = "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'"
    make_views(catalog, lambda i: f"SELECT a FROM v{i - 1}", 3)
    run(
        catalog,
        f"CREATE VIEW names AS {names}",
        f"CREATE VIEW described AS {columns}",
        "CREATE VIEW stacked AS SELECT * FROM names",
    )
    everything = ["described", "names", "stacked", "t", "v0", "v1", "v2"]
    grants = frozenset(Grant("ann", "SELECT", "TABLE", "public", name) for name in everything)
    mine = PrincipalScopes(catalog).of(Rights.of(Principal("ann", "readonly"), AccessSnapshot(grants=grants)))
    for seen in (catalog, mine):
        for source in ("stacked", "names", "described", f"({names})"):
            assert [row["table_name"] for row in read(seen, f"SELECT * FROM {source} ORDER BY 1")] == everything
    run(catalog, "DROP TABLE t")
    assert read(catalog, "SELECT * FROM names WHERE table_name LIKE 'v%'") == []


@pytest.mark.parametrize("dropped", [True, False])
@pytest.mark.parametrize("query", ["SELECT a FROM v2", "SELECT a FROM t WHERE a IN (SELECT x.a FROM t x, public.v2)"])
def test_views_that_would_read_each_other_are_refused(catalog: Catalog, query: str, dropped: bool) -> None:
    """A view may not come to read itself through others, not as a new one in place of a dropped one either."""
    make_views(catalog, lambda i: f"SELECT a FROM v{i - 1}", 3)
    if dropped:
        run(catalog, "DROP VIEW v0")
    with pytest.raises(SqlError, match=r"the views 'v0' and 'v1' cannot read from each other"):
        run(catalog, f"CREATE OR REPLACE VIEW v0 AS {query}")
    run(catalog, "CREATE OR REPLACE VIEW v0 AS WITH v2 AS (SELECT a FROM t) SELECT a FROM v2")
    assert read(catalog, "SELECT * FROM v2") == [{"a": 1}]


def test_views_with_ai_calls_that_would_read_each_other_are_refused(catalog: Catalog) -> None:
    """Nor may those with AI calls; queries that mention them go on."""
    schema = pa.schema([("g", pa.string())])
    for name, read_there in (("one", "t"), ("two", "one"), ("three", "two")):
        catalog.create_ai_view(
            classify(ParsedText(f"CREATE VIEW {name} AS SELECT f(g) AS g FROM {read_there}")), schema
        )
    with pytest.raises(SqlError, match="the views 'one' and 'two' cannot read from each other"):
        catalog.create_ai_view(
            classify(ParsedText("CREATE OR REPLACE VIEW one AS SELECT f(g) AS g FROM three")), schema
        )
    assert catalog.inline_views(ParsedText("SELECT * FROM three")).sql.startswith(
        'WITH "one" AS (SELECT f(g) AS g FROM t), "two"'
    )
