"""Random queries, with the optimizer on and off: the same rows under the same schema, and never more calls.

`python -m tests.sql` compares as many as it is told to.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SAMPLES, small_database
from tests.sql.comparing import Outcome, compare
from tests.sql.random_queries import TABLES, random_query

BATCH, BATCHES = 52, 10
QUICK = 16
"""How many queries are compared if slow tests are not run."""
REFUSED = 2
"""How many queries of a batch may be refused; both ways must then refuse them alike."""
WAVE = 128
"""The prompts of one wave: those that the engine of the tests keeps in flight."""
DEARER = frozenset([338, 459])
"""Queries that cost more with the optimizer on: without it, a join meets its empty side before the other side asks."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return one session for all queries."""
    database: Database = small_database(tmp_path_factory.mktemp("random"), tables=SAMPLES)
    session = database.session()
    for table in TABLES:
        session.update(table)
    yield session
    database.close()


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(QUICK), id="some"),
        *(
            pytest.param(range(batch * BATCH, (batch + 1) * BATCH), marks=pytest.mark.slow, id=str(batch))
            for batch in range(BATCHES)
        ),
    ],
)
def test_same_rows(session: Session, seeds: range) -> None:
    """Rows and schema do not depend on the optimizer, and it saves most of the calls."""
    outcome, dearer = Outcome(), Outcome()
    for seed in seeds:
        compare(session, random_query(seed), dearer if seed in DEARER else outcome)
    assert not dearer.wrong, "\n\n".join(dearer.wrong)
    assert dearer.most_more <= WAVE, "\n\n".join(dearer.more)
    assert not outcome.wrong, "\n\n".join(outcome.wrong)
    assert len(outcome.refused) <= REFUSED, "\n\n".join(outcome.refused)
    assert not outcome.more, "\n\n".join(outcome.more)
    assert outcome.calls * 2 < outcome.calls_off


@pytest.mark.parametrize(
    ("table", "count"),
    [("talk", 4), *(pytest.param(t, 500, marks=pytest.mark.slow) for t in ("talk", "people", "films", "likes"))],
)
def test_empty_tables(tmp_path: Path, table: str, count: int) -> None:
    """A table without rows makes other calls needless with the optimizer too, but for those of one wave."""
    database = small_database(tmp_path, tables=SAMPLES)
    session = database.session()
    for text in TABLES:
        session.update(text)
    session.update(f"CREATE TABLE empty AS SELECT * FROM {table} WHERE 1 = 0")
    session.update(f"DROP TABLE {table}")
    session.update(f"CREATE TABLE {table} AS SELECT * FROM empty")
    outcome = Outcome()
    try:
        for seed in range(count):
            compare(session, random_query(seed), outcome)
    finally:
        database.close()
    assert not outcome.wrong, "\n\n".join(outcome.wrong)
    assert outcome.most_more <= WAVE, "\n\n".join(outcome.more)
    assert outcome.calls * 2 < outcome.calls_off


def test_texts() -> None:
    """The texts are of every kind, and a seed always gives the same one."""
    texts = [random_query(seed) for seed in range(BATCH * BATCHES)]
    assert texts == [random_query(seed) for seed in range(BATCH * BATCHES)]
    assert len(set(texts)) == len(texts)
    wanted = [
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
        "CROSS JOIN",
        "UNION ALL",
        "UNION SELECT",
    ]
    wanted += [
        "INTERSECT",
        "EXCEPT",
        "WITH c AS",
        "EXISTS",
        " IN (SELECT",
        "NOT IN (",
        "GROUP BY",
        "HAVING",
        "OVER (",
        "DISTINCT",
    ]
    wanted += ["row_number()", "QUALIFY", "EXCEPT ALL", "INTERSECT ALL", "FROM silence", "'a' = 'b'", " AS l LIMIT "]
    wanted += ["LIMIT", "OFFSET", "CASE WHEN", "coalesce", " OR ", "FILTER (WHERE", ">= (SELECT"]
    wanted += ["ai_filter", "ai_gen", "ai_score", "ai_classify", "ai_sentiment"]
    wanted += ["ai_gen('p')", "ai_filter('p')", ".*)", "'none')", "on_error => 'struct')"]
    for kind in wanted:
        assert sum(kind in text for text in texts) >= 10, kind
