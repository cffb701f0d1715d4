"""Run random queries with the optimizer on and off, and tell where rows or calls are not as they should be."""

from collections import Counter
from dataclasses import dataclass, field

from flightllm.errors import FlightLLMError, LimitExceededError
from flightllm.session.session import Session
from tests.databases import Ran, ask, canonical, in_order
from tests.sql.random_queries import unlimited

_AGAIN = 6
"""How often calls are counted before they are too many: threads decide which side of a join turns out empty first."""
_UNRUNNABLE = ("SanityCheckPlan", "a part without a memory bound")


@dataclass
class Outcome:
    """What became of the queries of a batch."""

    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    most_more: int = 0
    """The calls that one query makes at most beyond those without the optimizer."""
    calls: int = 0
    calls_off: int = 0


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
        # Too many parts of a UNION at once; DataFusion does not run each of its own plans.
        # Without the optimizer an AI call stays beside a window that could keep more rows than fit in memory.
        unrunnable = isinstance(off, LimitExceededError) or any(one in str(off) for one in _UNRUNNABLE)
        noted = outcome.refused if type(on) is type(off) or unrunnable else outcome.wrong
        noted.append(f"{sql}\n  on: {on!r:.300}\n  off: {off!r:.300}")
        return
    if on.table.schema != off.table.schema or not _same_rows(session, sql, on, off):
        outcome.wrong.append(f"{sql}\n  on: {on.table.num_rows} rows, off: {off.table.num_rows}")
    most = off.calls
    for _ in range(_AGAIN):
        if on.calls <= most:
            break
        again = run(session, sql, "off")
        most = max(most, again.calls if isinstance(again, Ran) else 0)
    else:
        outcome.more.append(f"{sql}\n  on: {on.calls} calls, off: {most}")
    outcome.most_more = max(outcome.most_more, on.calls - most)
    outcome.calls += on.calls
    outcome.calls_off += most


def _same_rows(session: Session, sql: str, on: Ran, off: Ran) -> bool:
    """Return whether both returned the same rows; as many of those there are to choose from, where a LIMIT chooses."""
    whole = unlimited(sql)
    if whole is None:
        rows = in_order if " ORDER BY " in sql.rpartition(")")[2] else canonical
        return rows(on.table) == rows(off.table)
    there = Counter(canonical(ask(session, whole, cache="off").table))
    return on.table.num_rows == off.table.num_rows and Counter(canonical(on.table)) <= there
