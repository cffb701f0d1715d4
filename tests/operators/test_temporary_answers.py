"""Temporary answers: the newest in memory, the oldest in a database that ends with the process."""

import sqlite3
import sys
from contextlib import closing

import pyarrow as pa
import pytest

from flightllm.operators import temporary_answers
from flightllm.operators.temporary_answers import PRIVATE_HELD, TemporaryAnswers


def test_temporary() -> None:
    """A temporary cache has its newest answers, those in memory and those that it moved to its database."""
    with closing(TemporaryAnswers(most_held=20_000)) as cache:
        answers = {n.to_bytes(4, "big"): f"answer {n}" for n in range(1_000)}
        for n, (key, text) in enumerate(answers.items()):
            cache.put(key, "old" if n % 3 == 0 else text)
            cache.flush()
        for key, text in answers.items():
            cache.put(key, text)
        assert cache.get(list(answers)) == cache.peek([*answers, b"other"]) == answers
        assert cache.stats().entries == 1_000
        assert cache.clear() == 1_000
        assert cache.get(list(answers)) == {}


@pytest.mark.parametrize("limits", [{"max_bytes": 1_000_000}, {"most_held": 1_000_000}])
def test_memory_of_a_temporary_cache(limits: dict[str, int]) -> None:
    """A temporary cache holds answers up to its bytes, also if they grow, and commits the oldest of them."""
    with closing(TemporaryAnswers(**limits)) as cache:
        held, fell = [], []
        for n in range(6_000):
            before = len(cache._waiting)
            text = f"{'😀' * 100}{n}"
            cache.put(n.to_bytes(4, "big"), text)
            assert pa.array([text])[0].as_py() == text
            assert sys.getsizeof(text) > 800  # with its UTF-8 form
            cache.put(b"same", str(n))
            held.append(sum(map(sys.getsizeof, cache._waiting.values())))
            fell.append(before - len(cache._waiting))
        assert 500_000 < max(held) <= 1_000_000
        assert 0 < max(fell) <= 2_000
        newest = [n.to_bytes(4, "big") for n in range(5_500, 6_000)]
        texts = [f"{'😀' * 100}{n}" for n in range(5_500, 6_000)]
        assert cache.get([*newest, b"same"]) == {**dict(zip(newest, texts, strict=True)), b"same": "5999"}


def test_a_private_cache_holds_little() -> None:
    """The cache of one query commits a few thousand answers at a time, and keeps all of them."""
    with closing(TemporaryAnswers(most_held=PRIVATE_HELD)) as cache:
        answers = {n.to_bytes(4, "big"): f"{n} {'x' * 1_000}" for n in range(9_000)}
        for key, text in answers.items():
            before = len(cache._waiting)
            cache.put(key, text)
            assert before - len(cache._waiting) < 2_000
            assert cache._waiting_bytes < 4 << 20
        assert len(cache._waiting) > 1_000
        assert cache.get(list(answers)) == answers
        assert cache.stats().entries == 9_000


def test_counted_and_cleared() -> None:
    """Answers in memory and in the database count once each; an emptied store takes answers again."""
    with closing(TemporaryAnswers(most_held=20_000)) as cache:
        assert (cache.stats().entries, cache.clear()) == (0, 0)
        for n in range(1_000):
            cache.put(n.to_bytes(4, "big"), "x")
        cache.put(bytes(4), "again")
        assert (cache.stats().entries, cache.stats().bytes > 20_000, cache.clear()) == (1_000, True, 1_000)
        cache.put(b"next", "y")
        assert cache.get([b"next", bytes(4)]) == {b"next": "y"}
        assert (cache.stats().entries, cache.clear(), cache.stats().entries) == (1, 1, 0)


def test_an_answer_that_waits_beside_an_earlier_one_counts_once() -> None:
    """While the database refuses to write, new answers to known prompts raise no count."""
    with closing(TemporaryAnswers(most_held=20_000)) as cache:
        for n in range(1_000):
            cache.put(n.to_bytes(4, "big"), "x")
        assert cache.stats().entries == 1_000
        assert cache._database is not None
        cache._database.execute("PRAGMA query_only = 1")
        for n in range(10):
            cache.put(n.to_bytes(4, "big"), "again")
        cache.put(b"new", "y")
        stats = cache.stats()
        assert (stats.entries, cache.stats().failures, len(cache._waiting)) == (1_001, 1, 11)
        assert cache.clear() == 1_001


def test_a_database_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database fails, all answers stay in memory; the store tries again later."""

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with closing(TemporaryAnswers(most_held=20_000)) as cache:
        with monkeypatch.context() as failing:
            failing.setattr(temporary_answers, "connect", fail)
            for n in range(1_000):
                cache.put(n.to_bytes(4, "big"), str(n))
        assert (cache.stats().failures, cache._database, len(cache._waiting)) == (1, None, 1_000)
        cache._retry = 0.0
        cache.put(b"last", "x")
        assert cache._database is not None
        assert len(cache.get([n.to_bytes(4, "big") for n in range(1_000)])) == 1_000


def test_a_database_that_cannot_be_read() -> None:
    """The store counts only its waiting answers if it cannot read its database, and `clear` forgets all answers."""
    with closing(TemporaryAnswers(most_held=20_000)) as cache:
        for n in range(1_000):
            cache.put(n.to_bytes(4, "big"), "x")
        database = cache._database
        assert database is not None
        database.execute("DROP TABLE answers")
        entries, waiting = cache.stats().entries, len(cache._waiting)
        assert entries == waiting < 1_000
        assert cache.clear() == waiting
        assert cache.stats().failures > 0
        cache.put(b"next", "y")
        assert cache.get([b"next", bytes(4)]) == {b"next": "y"}
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")


def test_a_closed_store_stays_closed() -> None:
    """A closed store has no answers, takes none, and opens no database again."""
    cache = TemporaryAnswers(most_held=20_000)
    cache.put(b"before", "x")
    cache.close()
    for n in range(1_000):
        cache.put(n.to_bytes(4, "big"), "x")
    assert (cache.stats().entries, cache.clear(), cache._database, len(cache._waiting)) == (0, 0, None, 0)
    assert cache.get([b"before", bytes(4)]) == {}
    cache.close()
