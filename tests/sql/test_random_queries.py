"""Random queries, with the optimizer on and off: the same rows under the same schema, for fewer calls."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from flightllm.database import Database
from flightllm.errors import FlightLLMError, LimitExceededError
from flightllm.session import Session
from tests.databases import SAMPLES, Ran, ask, canonical, in_order, small_database
from tests.sql.random_queries import TABLES, random_query

BATCH, BATCHES = 52, 10
REFUSED = 2
"""How many queries of a batch may be refused; both ways must then refuse them alike."""
MORE = 8
"""How many queries of a batch may make more calls than without the optimizer.

DataFusion stops reading one side of a join as soon as the other turns out to be empty, and so never asks what that side
asks; an operator has asked before. Tables this small make joins empty that no real ones would.
"""


@dataclass
class Outcome:
    """What became of the queries of a batch."""

    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    calls: int = 0
    calls_off: int = 0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return one session for all queries."""
    database: Database = small_database(tmp_path_factory.mktemp("random"), tables=SAMPLES)
    session = database.session()
    for table in TABLES:
        session.update(table)
    yield session
    database.close()


def run(session: Session, sql: str, optimizer: str) -> Ran | FlightLLMError:
    """Run a query; return its error where it is refused."""
    try:
        return ask(session, sql, optimizer=optimizer, cache="off")
    except FlightLLMError as error:
        return error


def compare(session: Session, sql: str, outcome: Outcome) -> None:
    """Run a query both ways and note what differs."""
    on, off = run(session, sql, "on"), run(session, sql, "off")
    if isinstance(on, FlightLLMError) or isinstance(off, FlightLLMError):
        alike = type(on) is type(off) or isinstance(off, LimitExceededError)  # too many parts of a UNION at once
        noted = outcome.refused if alike else outcome.wrong
        noted.append(f"{sql}\n  on: {on!r:.300}\n  off: {off!r:.300}")
        return
    rows = in_order if " ORDER BY " in sql.rpartition(")")[2] else canonical
    if on.table.schema != off.table.schema or rows(on.table) != rows(off.table):
        outcome.wrong.append(f"{sql}\n  on: {on.table.num_rows} rows, off: {off.table.num_rows}")
    if on.calls > off.calls:
        outcome.more.append(f"{sql}\n  on: {on.calls} calls, off: {off.calls}")
    outcome.calls += on.calls
    outcome.calls_off += off.calls


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_same_rows(session: Session, batch: int) -> None:
    """Rows and schema do not depend on the optimizer, and it saves most of the calls."""
    outcome = Outcome()
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        compare(session, random_query(seed), outcome)
    assert not outcome.wrong, "\n\n".join(outcome.wrong)
    assert len(outcome.refused) <= REFUSED, "\n\n".join(outcome.refused)
    assert len(outcome.more) <= MORE, "\n\n".join(outcome.more)
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
    wanted += ["LIMIT", "OFFSET", "CASE WHEN", "coalesce", " OR ", "FILTER (WHERE", ">= (SELECT"]
    wanted += ["ai_filter", "ai_gen", "ai_score", "ai_classify", "ai_sentiment"]
    wanted += ["ai_gen('p')", "ai_filter('p')", ".*)", "'none')", "on_error => 'struct')"]
    for kind in wanted:
        assert sum(kind in text for text in texts) >= 10, kind
