# ruff: noqa: ISC004 - long statements go over two lines
"""Queries that need a part of their input only: how near their calls come to the fewest that can do."""

from collections.abc import Iterator

import pytest

from bench.fewest_calls import in_order
from flightllm.config import LimitsConfig
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, canonical, small_database

ROWS, GROUPS, KEYS, MATCHES = 2_000, 40, 300, 3_000
TABLES = (
    f"CREATE TABLE goods AS SELECT v.value AS id, v.value % {GROUPS} AS grp, 'good number ' || v.value AS body, "
    f"(v.value * 7919) % 10007 AS price FROM generate_series(1, {ROWS}) AS v",
    f"CREATE TABLE keys AS SELECT v.value AS id FROM generate_series(1, {KEYS}) AS v",
    f"CREATE TABLE talks AS SELECT v.value AS tid, v.value % {KEYS} AS k, 'talk ' || v.value AS body "
    f"FROM generate_series(1, {MATCHES}) AS v",
)
ALLOWED = 1.5


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over tables of distinct texts."""
    database: Database = small_database(tmp_path_factory.mktemp("fewest"))
    session = database.session()
    for table in TABLES:
        session.update(table)
    yield session
    database.close()


def answers(session: Session, table: str, key: str, order: str) -> dict[object, list[bool]]:
    """Return what the filter says of the rows of each group, in their order."""
    sql = f"SELECT {key} AS k, ai_filter('p', body) AS a FROM {table} ORDER BY {order}"
    found: dict[object, list[bool]] = {}
    for row in ask(session, sql).rows:
        found.setdefault(row["k"], []).append(row["a"])
    return found


@pytest.mark.parametrize(
    ("sql", "table", "key", "order", "count"),
    [
        ("SELECT id FROM keys WHERE EXISTS (SELECT 1 FROM talks WHERE k = id AND ai_filter('p', body))",
         "talks JOIN keys ON k = id", "k", "tid", 1),
        ("SELECT id FROM keys WHERE NOT EXISTS (SELECT 1 FROM talks WHERE k = id AND ai_filter('p', body))",
         "talks JOIN keys ON k = id", "k", "tid", 1),
        ("SELECT id FROM keys WHERE id IN (SELECT k FROM talks WHERE ai_filter('p', body))",
         "talks JOIN keys ON k = id", "k", "tid", 1),
        ("SELECT max(price) FROM goods WHERE ai_filter('p', body)", "goods", "1", "price DESC", 1),
        ("SELECT min(price) FROM goods WHERE ai_filter('p', body)", "goods", "1", "price", 1),
        ("SELECT grp, max(price) FROM goods WHERE ai_filter('p', body) GROUP BY grp", "goods", "grp", "price DESC", 1),
        ("SELECT DISTINCT grp FROM goods WHERE ai_filter('p', body)", "goods", "grp", "id", 1),
        ("SELECT grp FROM goods WHERE ai_filter('p', body) GROUP BY grp", "goods", "grp", "id", 1),
        ("SELECT grp FROM goods WHERE ai_filter('p', body) GROUP BY grp HAVING count(*) > 2", "goods", "grp", "id", 3),
        ("SELECT grp, id FROM (SELECT grp, id, row_number() OVER (PARTITION BY grp ORDER BY price) AS n FROM goods "
         "WHERE ai_filter('p', body)) WHERE n = 1", "goods", "grp", "price", 1),
        ("SELECT grp, id FROM goods WHERE ai_filter('p', body) "
         "QUALIFY row_number() OVER (PARTITION BY grp ORDER BY price DESC) <= 3", "goods", "grp", "price DESC", 3),
        ("SELECT grp, id FROM goods WHERE ai_filter('p', body) "
         "QUALIFY rank() OVER (PARTITION BY grp ORDER BY price DESC) <= 2", "goods", "grp", "price DESC", 2),
        ("SELECT grp, id FROM goods WHERE ai_filter('p', body) "
         "QUALIFY dense_rank() OVER (PARTITION BY grp ORDER BY price) <= 2", "goods", "grp", "price", 2),
        ("SELECT grp, bool_or(ai_filter('p', body)) FROM goods GROUP BY grp", "goods", "grp", "id", 1),
        ("SELECT grp FROM goods GROUP BY grp HAVING bool_or(ai_filter('p', body))", "goods", "grp", "id", 1),
        ("SELECT grp FROM goods GROUP BY grp HAVING count(*) FILTER (WHERE ai_filter('p', body)) > 2",
         "goods", "grp", "id", 3),
        ("SELECT grp, max(price) FILTER (WHERE ai_filter('p', body)) FROM goods GROUP BY grp",
         "goods", "grp", "price DESC", 1),
        ("SELECT grp, last_value(id ORDER BY price) FROM goods WHERE ai_filter('p', body) GROUP BY grp",
         "goods", "grp", "price DESC", 1),
        ("SELECT DISTINCT ON (grp) grp, id FROM goods WHERE ai_filter('p', body) ORDER BY grp, price",
         "goods", "grp", "price", 1),
        ("SELECT k FROM talks WHERE ai_filter('p', body) UNION SELECT id FROM keys WHERE id < 9",
         "talks", "k", "tid", 1),
        ("SELECT keys.id, price FROM keys JOIN (SELECT id, price FROM goods WHERE ai_filter('p', body) "
         "ORDER BY price LIMIT 3) AS l ON keys.id = l.id", "goods", "1", "price", 3),
        ("SELECT id, price FROM goods WHERE ai_filter('p', body) UNION ALL SELECT id, id + 20000 FROM keys "
         "ORDER BY 2 LIMIT 3", "goods", "1", "price", 3),
    ],
)  # fmt: skip
def test_groups(session: Session, sql: str, table: str, key: str, order: str, count: int) -> None:
    """Asking ends with a group's first rows that pass; the fewest calls are those up to them."""
    fewest = sum(in_order(said, count) for said in answers(session, table, key, order).values())
    on, off = (ask(session, sql, optimizer=optimizer, cache="off") for optimizer in ("on", "off"))
    assert canonical(on.table) == canonical(off.table)
    assert on.calls <= ALLOWED * fewest + 2
    assert off.calls > 2 * on.calls


@pytest.mark.parametrize(
    ("sql", "fewest"),
    [
        ("SELECT id FROM keys WHERE EXISTS (SELECT 1 FROM talks WHERE k = id AND ai_filter('p', body)) LIMIT 5", 10),
        ("SELECT DISTINCT grp FROM goods WHERE ai_filter('p', body) LIMIT 5", 10),
        ("SELECT id FROM goods WHERE ai_filter('p', body) UNION ALL SELECT tid FROM talks WHERE ai_filter('p', body) "
         "LIMIT 10", 20),
        ("SELECT id FROM goods WHERE ai_filter('p', body) AND ai_filter('q', body) LIMIT 10", 60),
        ("SELECT grp, avg(ai_score('p', body)) FROM goods GROUP BY grp HAVING count(*) > 1000", 0),
        ("SELECT max(price), min(price), max(id) FROM goods WHERE ai_filter('p', body)", 9),
        ("SELECT DISTINCT grp FROM goods WHERE ai_filter('p', body) ORDER BY grp LIMIT 5", 10),
        ("SELECT grp, avg(ai_score('p', body)) FROM goods GROUP BY grp ORDER BY grp LIMIT 2", 100),
        ("SELECT grp, count(*) FROM goods WHERE ai_filter('p', body) GROUP BY grp LIMIT 2", 100),
        ("SELECT id FROM goods WHERE id < 0 EXCEPT ALL SELECT tid FROM talks WHERE ai_filter('p', body)", 0),
    ],
)  # fmt: skip
def test_limits(session: Session, sql: str, fewest: int) -> None:
    """Where half of the rows pass, a LIMIT needs about twice as many calls; what decides nothing needs none."""
    on, off = (ask(session, sql, optimizer=optimizer, cache="off") for optimizer in ("on", "off"))
    assert on.table.num_rows == off.table.num_rows
    assert on.calls <= ALLOWED * fewest


def test_spilled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows that do not fit into memory are taken in the same waves."""
    limits = LimitsConfig(memory_bytes=48 << 20)
    database = small_database(tmp_path_factory.mktemp("spilled"), limits=limits)
    session = database.session()
    session.update(
        "CREATE TABLE wide AS SELECT v.value AS id, v.value % 5 AS grp, repeat('word ', 600) || v.value AS body "
        "FROM generate_series(1, 4000) AS v"
    )
    sql = "SELECT DISTINCT grp FROM wide WHERE ai_filter('p', body)"
    try:
        on, off = (ask(session, sql, optimizer=optimizer, cache="off") for optimizer in ("on", "off"))
    finally:
        database.close()
    assert canonical(on.table) == canonical(off.table)
    assert on.calls < 100
