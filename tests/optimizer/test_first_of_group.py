"""Aggregates, ranks and sorts that a few rows decide: the same rows as without the rules, and no more calls."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, explained, in_order, small_database

TABLE = """CREATE TABLE goods AS SELECT v.value AS id, v.value % 6 AS grp, v.value % 4 AS price,
    CASE WHEN v.value % 5 = 0 THEN NULL ELSE v.value % 3 END AS size,
    CASE WHEN v.value % 7 = 0 THEN NULL ELSE 'good ' || (v.value % 40) END AS body FROM generate_series(1, 90) AS v"""
SOURCES: tuple[str, ...] = (
    "goods",
    "(SELECT * FROM goods WHERE id < 0)",
    "(SELECT * FROM goods UNION ALL SELECT id + 100, grp + 1, price, size, body FROM goods WHERE id < 20)",
    """(SELECT id, grp, price, size, body FROM goods WHERE ai_filter('r', body)
        UNION ALL SELECT id + 100, grp + 3, price, size, body FROM goods WHERE ai_filter('s', body))""",
)
SLOW = pytest.mark.slow
EACH_SOURCE = [pytest.param(s, marks=SLOW) if "UNION" in s else s for s in SOURCES]
RARE = "ai_score('p', body) > 9"
FILTERS = ("ai_filter('p', body)", RARE, "ai_filter('p', body) AND ai_filter('q', size)")
AGGREGATES = (
    "max(size), min(size)",
    "max(price), max(id), min(id)",
    "first_value(id ORDER BY size, id), last_value(id ORDER BY size NULLS FIRST, id)",
    "max(size) FILTER (WHERE price > 1), min(id)",
    "count(*), max(size)",
)
ANSWERED = (
    "bool_or({f})",
    "bool_and({f})",
    "bool_or({f}), bool_and({f}), max(size)",
    "max(id) FILTER (WHERE {f}), min(size) FILTER (WHERE {f})",
    "first_value(id ORDER BY price DESC, id) FILTER (WHERE {f})",
)
LIMITED = (
    "SELECT size, {a} FROM {s} AS t WHERE {f} GROUP BY size ORDER BY size{d} LIMIT 2",
    "SELECT grp, size FROM {s} AS t WHERE {f} GROUP BY grp, size ORDER BY size{d}, grp LIMIT 3 OFFSET 1",
    "SELECT grp, {a} FROM {s} AS t GROUP BY grp ORDER BY grp{d} LIMIT 2",
    "SELECT * FROM (SELECT id, grp FROM {s} AS t WHERE {f} ORDER BY size{d}, id LIMIT 4) AS l ORDER BY id",
    """SELECT l.id, p.name FROM (SELECT id FROM {s} AS t WHERE {f} ORDER BY id{d} LIMIT 3) AS l
        LEFT JOIN people AS p ON p.id = l.id ORDER BY l.id""",
)
KEYS = ("", "grp", "size", "grp, size")
MEASURES = ("count(*), sum(id)", "max(ai_gen('g', body))", "max(id)")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over tables with duplicates and NULLs."""
    database: Database = small_database(tmp_path_factory.mktemp("first"))
    session = database.session()
    session.update(TABLE)
    yield session
    database.close()


@pytest.mark.parametrize("source", EACH_SOURCE)
@pytest.mark.parametrize(
    ("keys", "filters"), [("grp, size", FILTERS[:1]), *(pytest.param(k, FILTERS, marks=SLOW) for k in KEYS)]
)
def test_aggregates(session: Session, source: str, keys: str, filters: tuple[str, ...]) -> None:
    """Each aggregate has the value that all rows of its group give."""
    shown, grouped = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    texts = [f"SELECT {shown}{a} FROM {source} AS t WHERE {f}{grouped}" for a, f in product(AGGREGATES, filters)]
    texts += [f"SELECT {shown}{a.format(f=f)} FROM {source} AS t{grouped}" for a, f in product(ANSWERED, filters[:2])]
    for sql in texts:
        on, off = ask_both(session, sql)
        assert on.calls <= off.calls, sql


@pytest.mark.parametrize("source", EACH_SOURCE)
@pytest.mark.parametrize("text", LIMITED)
def test_limits(session: Session, source: str, text: str) -> None:
    """A LIMIT on the groups, or on sorted rows, returns the first ones in their order."""
    chosen = product(FILTERS[:2], MEASURES, ("", " DESC", " NULLS FIRST"))
    for sql in dict.fromkeys(text.format(s=source, f=f, a=a, d=d) for f, a, d in chosen):  # not all have a measure
        on, off = ask_both(session, sql)
        assert in_order(on.table) == in_order(off.table), sql
        assert on.calls <= off.calls, sql


@pytest.mark.parametrize("function", ["rank", *(pytest.param(f, marks=SLOW) for f in ("row_number", "dense_rank"))])
@pytest.mark.parametrize("source", EACH_SOURCE)
def test_ranks(session: Session, source: str, function: str) -> None:
    """Rows with equal ranks all stay."""
    last = ", id" if function == "row_number" else ""
    for f, keys, order, n in product(FILTERS[:2], ("", "PARTITION BY grp "), ("size", "price DESC, size"), (1, 2)):
        over = f"OVER ({keys}ORDER BY {order}{last})"
        sql = f"SELECT id, {function}() {over} AS n FROM {source} AS t WHERE {f} QUALIFY {function}() {over} <= {n}"
        on, off = ask_both(session, sql)
        assert on.calls <= off.calls, sql


@pytest.mark.parametrize("measure", ["max(id)", "count(*)", "bool_or(ai_filter('q', body))"])
@pytest.mark.parametrize("source", SOURCES)
def test_any_groups(session: Session, source: str, measure: str) -> None:
    """The groups that a LIMIT without an order returns are whole."""
    sql = f"SELECT grp, {measure} AS m FROM {source} AS t WHERE ai_filter('p', body) GROUP BY grp"
    there = ask(session, sql, optimizer="off").rows
    found = ask(session, f"{sql} LIMIT 3", cache="off").rows
    assert len(found) == min(3, len(there))
    assert all(row in there for row in found)


def test_any_value(session: Session) -> None:
    """any_value returns a value of a row that passes, and NULL only where all such rows have NULL."""
    asked = ask(session, "SELECT grp, size FROM goods WHERE ai_filter('p', body)").rows
    found = ask(session, "SELECT grp, any_value(size) AS v FROM goods WHERE ai_filter('p', body) GROUP BY grp").rows
    there: dict[int, set[int | None]] = {}
    for row in asked:
        there.setdefault(row["grp"], set()).add(row["size"])
    assert {row["grp"] for row in found} == there.keys()
    assert all(row["v"] in (there[row["grp"]] - {None} or {None}) for row in found)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT grp, bool_or(ai_filter('p', body)) FROM goods GROUP BY grp", "one row with c"),
        ("SELECT DISTINCT grp FROM goods WHERE ai_filter('p', body) ORDER BY grp LIMIT 2", "the first groups"),
        ("SELECT id FROM goods WHERE ai_filter('p', body) QUALIFY rank() OVER (ORDER BY price) < 3", "rank like"),
        ("SELECT grp, sum(ai_score('p', body)) FROM goods GROUP BY grp LIMIT 2", "after all rows"),
    ],
)
def test_explain(session: Session, sql: str, words: str) -> None:
    """EXPLAIN says when asking about a group ends."""
    assert any(words in text for title, text in explained(session, sql).items() if title.startswith("group limit"))


def test_empty(tmp_path: Path) -> None:
    """Rows of an empty table have no ties and no groups."""
    database = small_database(tmp_path)
    try:
        sql = "SELECT id FROM nothing WHERE ai_filter('p', note) QUALIFY rank() OVER (ORDER BY score) = 1"
        on, _ = ask_both(database.session(), sql)
        assert on.rows == []
        assert on.calls == 0
    finally:
        database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zero, count(*), sum(id) FROM odd WHERE ai_score('p', body) >= 0 GROUP BY zero ORDER BY zero LIMIT 1",
        "SELECT zero, sum(ai_score('p', body)) FROM odd GROUP BY zero ORDER BY zero LIMIT 1",
        "SELECT DISTINCT zero FROM odd WHERE ai_score('p', body) >= 0 ORDER BY zero LIMIT 2",
        "SELECT id FROM odd WHERE ai_score('p', body) >= 0 QUALIFY rank() OVER (PARTITION BY zero ORDER BY id) = 1",
        "SELECT DISTINCT pair FROM odd WHERE ai_score('p', body) >= 0",
        "SELECT pair, count(*) FROM odd WHERE ai_score('p', body) >= 0 GROUP BY pair ORDER BY pair LIMIT 1",
    ],
)
def test_special_keys(tmp_path: Path, sql: str) -> None:
    """Both zeros are one group, and a struct can be a key."""
    database = small_database(tmp_path)
    try:
        session = database.session()
        session.update(
            "CREATE TABLE odd AS SELECT *, named_struct('a', id % 3) AS pair"
            " FROM (VALUES (1, 0.0::double, 'a'), (2, '-0'::double, 'b'), (3, 1.0, 'c'), (4, 2.0, 'd'))"
            " AS v(id, zero, body)"
        )
        ask_both(session, sql)
    finally:
        database.close()
