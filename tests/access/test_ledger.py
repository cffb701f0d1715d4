"""What a user spends in a day."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.access.ledger import Ledger
from flightllm.access.store import AccessStore, Allowance, User


@pytest.fixture
def store(tmp_path: Path) -> AccessStore:
    """Return a store with a user who may spend a thousand tokens a day."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("ann", "user", allowance=Allowance(tokens=1_000)))
    return store


def test_spending_waits_for_a_file_in_use(store: AccessStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written while another process holds the file is written afterwards."""
    monkeypatch.setattr("flightllm.access.file._BUSY_SECONDS", 0.01)
    store = AccessStore(tmp_path / "access.sqlite")
    ledger = Ledger(store, "ann")
    ledger.look()
    day = "2026-01-01"
    monkeypatch.setattr("flightllm.access.ledger.today", lambda: day)
    assert ledger.take(1, 100, 0.0) is None
    with closing(sqlite3.connect(tmp_path / "access.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ledger.settle(day, 60, 0.0, held_tokens=100, held_cost=0.0)
        ledger.write()
        other.execute("ROLLBACK")
    assert store.spent("ann", day) == (0, 0, 0.0)
    ledger.write()
    assert store.spent("ann", day) == (1, 60, 0.0)


def test_a_request_over_midnight(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts for the day on which it ends, and gives the new day nothing back."""
    days = iter(["2026-01-01", *["2026-01-02"] * 9])
    monkeypatch.setattr("flightllm.access.ledger.today", lambda: next(days))
    ledger = Ledger(store, "ann")
    ledger.look()
    assert ledger.take(1, 1_000, 0.0) is None
    ledger.settle("2026-01-01", 100, 0.0, held_tokens=1_000, held_cost=0.0)
    assert ledger.take(1, 901, 0.0) is not None
    assert ledger.take(1, 900, 0.0) is None


def test_a_clock_set_back_over_midnight(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of a day is spent once, also for a server that starts meanwhile; the next day has its own."""
    days = ["2026-03-01"]
    monkeypatch.setattr("flightllm.access.ledger.today", lambda: days[-1])
    ledger = Ledger(store, "ann")
    ledger.look()
    assert ledger.take(1, 900, 0.0) is None
    ledger.settle(days[-1], 900, 0.0, held_tokens=900, held_cost=0.0)
    days.append("2026-02-28")
    started = Ledger(store, "ann")
    started.look()
    for one in (ledger, started):
        assert one.take(1, 101, 0.0) is not None
    for day in ("2026-03-02", "2025-03-01"):
        days.append(day)
        assert ledger.take(1, 1_000, 0.0) is None
