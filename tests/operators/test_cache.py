"""The answer cache: kept across restarts, shared by threads, and never a reason to fail."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.common.atomic_files import set_database_aside
from flightllm.config import CacheConfig
from flightllm.functions.call import AICall
from flightllm.llm.engine import Parameters
from flightllm.operators.cache import AnswerCache, CacheKeys
from tests.databases import ask, small_database
from tests.disks import small_disk
from tests.servers import await_true


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a cache is to be."""
    return tmp_path / "deep" / "answers.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[AnswerCache]:
    """Return an empty cache on disk."""
    cache = AnswerCache(path)
    yield cache
    cache.close()


def call(**changes: object) -> AICall:
    """Make a call site."""
    values: dict[str, object] = {
        "stub": "s",
        "function": "ai_gen",
        "text": "ai_gen('x', a, b)",
        "instruction": "x",
        "fields": ("a", "b"),
        "required": frozenset[int](),
        "parameters": Parameters(),
        "output": pa.string(),
        "parse": str,
        "on_error": "null",
    }
    return AICall(**{**values, **changes})  # type: ignore[arg-type]


def test_kept(path: Path, cache: AnswerCache) -> None:
    """Answers are there at once, and after a restart; unknown keys are not."""
    answers = {n.to_bytes(4, "big"): f"answer {n}" for n in range(1500)}
    for key, text in answers.items():
        cache.put(key, text)
    assert cache.get(list(answers)) == answers
    cache.close()
    again = AnswerCache(path)
    assert again.get([*answers, b"other"]) == answers
    again.close()


def test_newest(cache: AnswerCache) -> None:
    """A later answer takes the place of an earlier one."""
    cache.put(b"k", "old")
    cache.flush()
    cache.put(b"k", "new")
    assert cache.get([b"k"]) == {b"k": "new"}
    cache.flush()
    assert cache.get([b"k", b"k"]) == {b"k": "new"}


def test_bounded(tmp_path: Path) -> None:
    """Beyond its size the oldest answers go; the newest stay."""
    cache = AnswerCache(tmp_path / "small.sqlite", max_bytes=200_000)
    for n in range(2000):
        cache.put(n.to_bytes(4, "big"), "x" * 500)
        if n % 20 == 0:
            cache.flush()
    cache.flush()
    found = cache.get([n.to_bytes(4, "big") for n in range(2000)])
    assert 10 < len(found) < 1000
    assert (1999).to_bytes(4, "big") in found
    assert (0).to_bytes(4, "big") not in found
    cache.close()


def test_bounded_after_its_limit_was_lowered(tmp_path: Path) -> None:
    """A cache that is far too large shrinks as answers come, two old ones for each new one and some more."""
    path = tmp_path / "large.sqlite"
    large = AnswerCache(path)
    for n in range(2000):
        large.put(n.to_bytes(4, "big"), "x" * 500)
    large.close()
    small = AnswerCache(path, max_bytes=200_000)
    old = [n.to_bytes(4, "big") for n in range(2000)]
    for n in range(100):
        small.put(f"new {n}".encode(), "x" * 500)
        small.flush()
    assert 10 < len(small.get(old)) < 400
    assert small.get([b"new 99"])
    assert small.stats().bytes <= 220_000
    small.close()
    none = AnswerCache(path, max_bytes=1)
    for n in range(100):
        none.put(f"newer {n}".encode(), "x")
        none.flush()
    assert none.stats().entries == 0
    none.close()


def test_used_answers_stay(tmp_path: Path) -> None:
    """Answers that are read again and again outlive newer ones that are not."""
    cache = AnswerCache(tmp_path / "small.sqlite", max_bytes=200_000)
    hot = [f"hot {n}".encode() for n in range(10)]
    for key in hot:
        cache.put(key, "x" * 500)
    for n in range(3000):
        cache.put(n.to_bytes(4, "big"), "x" * 500)
        if n % 20 == 0:
            cache.flush()
            assert len(cache.get(hot)) == 10
    assert len(cache.get([n.to_bytes(4, "big") for n in range(3000)])) < 1000
    cache.close()


def test_stats_and_clear(path: Path, cache: AnswerCache) -> None:
    """The figures count what is there and what was looked up; emptied, the file gives its space back."""
    for n in range(1000):
        cache.put(n.to_bytes(4, "big"), "x" * 500)
    cache.get([(0).to_bytes(4, "big"), (1).to_bytes(4, "big"), b"other"])
    stats = cache.stats()
    assert (stats.entries, stats.hits, stats.misses) == (1000, 2, 1)
    assert 500_000 < stats.bytes < stats.max_bytes == 4 << 30
    cache.put(b"last", "x")
    assert cache.clear() == 1001
    assert cache.get([b"last", (0).to_bytes(4, "big")]) == {}
    stats = cache.stats()
    assert (stats.entries, stats.bytes < 50_000, path.stat().st_size < 50_000) == (0, True, True)
    cache.put(b"next", "y")
    assert cache.get([b"next"]) == {b"next": "y"}


def test_cleared_in_the_middle_of_a_checkpoint(path: Path, cache: AnswerCache) -> None:
    """Emptied while its own thread moves pages of the log into the file, the cache gives the space back at once."""
    for _ in range(25):
        for n in range(1000):
            cache.put(n.to_bytes(4, "big"), "x" * 500)
        assert cache.clear() == 1000
        assert path.stat().st_size < 50_000


def test_killed(path: Path) -> None:
    """A process that dies without a word has kept what it answered, the last of a burst too."""
    code = """
import os, signal, sys, time
from pathlib import Path
from flightllm.operators.cache import AnswerCache
cache = AnswerCache(Path(sys.argv[1]))
for n in range(50):
    cache.put(n.to_bytes(4, "big"), "text")
    if n % 10 == 0:
        time.sleep(0.01)
while cache._waiting:
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -9
    cache = AnswerCache(path)
    assert len(cache.get([n.to_bytes(4, "big") for n in range(50)])) == 50
    cache.close()


@pytest.mark.slow
def test_processes(path: Path) -> None:
    """Several processes make, fill, bound and empty one file at once, and none of them has to do without it."""
    code = """
import sys
from pathlib import Path
from flightllm.operators.cache import AnswerCache
start = int(sys.argv[2])
cache = AnswerCache(Path(sys.argv[1]), max_bytes=150_000)
for n in range(start, start + 300):
    cache.put(n.to_bytes(4, "big"), "x" * 300)
    if n % 7 == 0:
        cache.flush()
        cache.get([(n - 150).to_bytes(4, "big")])
    if n % 250 == 0:
        cache.clear()
assert cache._path is not None
cache.close()
"""
    started = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in (1000, 1150, 1300)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    cache = AnswerCache(path)
    assert cache._database is not None
    assert cache._database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    cache.close()


def test_busy(path: Path, cache: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the file, answers wait in memory, and are written afterwards."""
    assert cache._database is not None
    cache._database.execute("PRAGMA busy_timeout = 1")
    monkeypatch.setattr("flightllm.operators.cache._BUSY_SECONDS", 0.0)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    cache.put(b"k", "x")
    cache.flush()
    assert cache._waiting
    assert cache.get([b"k"]) == {b"k": "x"}
    other.rollback()
    cache.flush()
    assert other.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    other.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_corrupt(path: Path, content: bytes) -> None:
    """A file that is no database is set aside as it is, beside one of an earlier time, and another is begun."""
    path.parent.mkdir()
    for number in (1, 2):
        path.write_bytes(content)
        cache = AnswerCache(path)
        cache.put(b"k", "x")
        cache.flush()
        assert cache.stats().failures == 1
        cache.close()
        again = AnswerCache(path)
        assert again.get([b"k"]) == {b"k": "x"}
        again.close()
        assert path.with_name(f"answers.sqlite.damaged-{number}").read_bytes() == content


def test_damaged_while_running(path: Path, cache: AnswerCache) -> None:
    """A file that is overwritten under a running server is set aside, and what is answered then is kept."""
    keys = [n.to_bytes(4, "big") for n in range(3000)]
    for key in keys:
        cache.put(key, "x" * 5000)
    cache.flush()
    assert cache._database is not None
    database = cache._database
    await_true(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    assert len(cache.get(keys)) < 3000
    cache.put(b"k", "x")
    cache.flush()
    assert path.with_name("answers.sqlite.damaged-1").exists()
    cache.close()
    again = AnswerCache(path)
    assert again.get([b"k"]) == {b"k": "x"}
    again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of a few kilobytes")
@pytest.mark.parametrize("begun", [True, False])
def test_set_aside_by_another_process(path: Path, cache: AnswerCache, begun: bool) -> None:
    """Where another process has set the shared file aside, answers go into the file that takes its place."""
    cache.put(b"old", "kept")
    cache.flush()
    set_database_aside(path)
    with closing(AnswerCache(path) if begun else sqlite3.connect(":memory:")):
        cache.put(b"key", "text")
        cache.flush()
    with closing(AnswerCache(path)) as other:
        assert other.get([b"old", b"key"]) == {b"key": "text"}
    assert cache.stats().failures == 0


def test_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk answers wait in memory, reads go on, and once there is room again they are all written."""
    monkeypatch.setattr("flightllm.operators.cache._BUSY_SECONDS", 0.0)
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        cache = AnswerCache(disk / "answers.sqlite")
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        keys = [n.to_bytes(4, "big") for n in range(100)]
        for key in keys:
            cache.put(key, "x" * 5_000)
            cache.flush()
        assert len(cache.get(keys)) == 100
        assert cache.stats().failures > 0
        filler.unlink()
        cache.put(b"last", "x")
        cache.flush()
        cache.close()
        again = AnswerCache(disk / "answers.sqlite")
        assert len(again.get([*keys, b"last"])) == 101
        again.close()


def test_full_when_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache whose folder cannot be made at first is written as soon as it can."""
    monkeypatch.setattr("flightllm.operators.cache._BUSY_SECONDS", 0.0)
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "answers.sqlite"
    cache = AnswerCache(path)
    cache.put(b"k", "x")
    cache.flush()
    assert cache.get([b"k"]) == {b"k": "x"}
    (tmp_path / "file").unlink()
    cache.flush()
    cache.close()
    again = AnswerCache(path)
    assert again.get([b"k"]) == {b"k": "x"}
    again.close()


def test_no_place(tmp_path: Path) -> None:
    """A folder that cannot be made does not stop the server."""
    (tmp_path / "file").write_text("")
    cache = AnswerCache(tmp_path / "file" / "answers.sqlite")
    cache.put(b"k", "x")
    assert cache.get([b"k"]) == {b"k": "x"}
    cache.close()


def test_broken_while_running(path: Path, cache: AnswerCache) -> None:
    """A database that breaks later costs answers, no query."""
    cache.put(b"k", "x")
    cache.flush()
    other = sqlite3.connect(path)
    other.execute("DROP TABLE answers")
    other.commit()
    other.close()
    before = cache._database
    assert before is not None
    assert cache.get([b"k"]) == {}
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        before.execute("SELECT 1")
    cache.put(b"m", "y")
    cache.flush()
    assert cache.get([b"m"]) == {b"m": "y"}


def test_broken_before_a_commit(path: Path, cache: AnswerCache) -> None:
    """What waits when the database breaks is not lost with it."""
    cache.put(b"k", "x")
    cache.flush()
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE answers")
        other.commit()
    cache.put(b"m", "y")
    cache.flush()
    assert cache.get([b"m"]) == {b"m": "y"}


def test_threads(cache: AnswerCache) -> None:
    """Several queries write and read at once."""

    def work(start: int) -> None:
        for n in range(start, start + 400):
            cache.put(n.to_bytes(4, "big"), str(n))
            cache.get([n.to_bytes(4, "big"), b"none"])

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 300, 600)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.get([n.to_bytes(4, "big") for n in range(1000)])) == 1000


def test_keys() -> None:
    """Everything that can change an answer counts, the order of the fields and the layout too."""
    keys = CacheKeys(call(), "revision")
    different = [
        keys.key([("a", "1"), ("b", "2")]),
        keys.key([("b", "2"), ("a", "1")]),
        CacheKeys(call(), "revision", fields_first=True).key([("a", "1"), ("b", "2")]),
        CacheKeys(call(), "revision", fields_first=True).key([("a", "1")]),
        keys.key([("a", "2"), ("b", "1")]),
        keys.key([("a", "1\0b"), ("b", "2")]),
        keys.key([("a", "1")]),
        keys.key([]),
        CacheKeys(call(instruction="y"), "revision").key([]),
        CacheKeys(call(function="ai_score"), "revision").key([]),
        CacheKeys(call(parameters=Parameters(max_tokens=5)), "revision").key([]),
        CacheKeys(call(model="m"), "revision").key([]),
        CacheKeys(call(), "other").key([]),
    ]
    assert len(set(different)) == len(different)
    assert CacheKeys(call(), "revision", "other words").key([]) != keys.key([])
    assert CacheKeys(call(text="elsewhere", on_error="fail"), "revision").key([]) == keys.key([])


@pytest.mark.parametrize("enabled", [True, False])
def test_across_queries_and_restarts(tmp_path: Path, enabled: bool) -> None:
    """An answer is bought once, also after a restart, unless the cache is switched off."""
    sql = "SELECT ai_gen('x', note) FROM people"
    for first in (True, False):
        database = small_database(tmp_path, cache=CacheConfig(enabled=enabled))
        session = database.session()
        ran = ask(session, sql)
        assert (ran.calls, ran.cache_hits) == ((4, 0) if first or not enabled else (0, 4))
        again = ask(session, sql)
        assert (again.calls, again.cache_hits) == (0, 4)
        assert again.rows == ran.rows
        assert ask(session, sql, cache="off").calls == 4
        database.close()


def test_unusable_file_still_answers(tmp_path: Path) -> None:
    """A server whose cache file is broken answers all the same."""
    (tmp_path / "answers.sqlite").write_text("nonsense" * 500)
    database = small_database(tmp_path)
    assert ask(database.session(), "SELECT ai_gen('x', note) FROM people").calls == 4
    database.close()


def test_bad_row_is_dropped_alone(path: Path, cache: AnswerCache) -> None:
    """A text that SQLite cannot hold costs itself only: what was put before and after it is kept."""
    bad: list[tuple[bytes, str]] = [(b"half", "a\ud800b"), (b"odd", object())]  # type: ignore[list-item]
    for number in range(3):
        cache.put(b"%d" % number, f"answer {number}")
        for key, text in bad:
            cache.put(key, text)
        cache.flush()
    assert cache.stats().failures == 6
    assert cache.clear() == 3
    cache.put(b"next", "nul \0 stays")
    cache.close()
    again = AnswerCache(path)
    assert again.get([b"next", b"half", b"odd", b"0"]) == {b"next": "nul \0 stays"}
    again.close()


def test_damaged_rows(path: Path, cache: AnswerCache) -> None:
    """A row that is no text is as if it was not there, beside others of one look-up, and is replaced or forgotten."""
    cache.put(b"good", "yes")
    cache.put(b"bad", "once")
    cache.flush()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE answers SET text = CAST(x'ff80' AS TEXT) WHERE key = ?", (b"bad",))
        other.execute("INSERT INTO answers (key, text) VALUES (7, x'ff')")
    assert cache.get([b"good", b"bad"]) == {b"good": "yes"}
    assert cache.peek([b"bad"]) == {}
    assert cache.stats().entries == 3
    cache.put(b"bad", "again")
    cache.flush()
    assert cache.get([b"good", b"bad"]) == {b"good": "yes", b"bad": "again"}
    assert cache.clear() == 3
    assert cache.stats().entries == 0


def test_a_flipped_bit_is_no_answer(path: Path, cache: AnswerCache) -> None:
    """SQLite returns the changed text: the cache does not, and keeps the others; older rows have no checksum."""
    cache.put(b"one", "a red apple")
    cache.put(b"two", "a green pear")
    cache.close()
    content = path.read_bytes()
    assert content.count(b"a red apple") == 1
    path.write_bytes(content.replace(b"a red apple", b"a rad apple"))
    with closing(AnswerCache(path)) as again:
        assert again.get([b"one", b"two"]) == {b"two": "a green pear"}
        again.put(b"one", "a red apple")
        again.flush()
        assert again.get([b"one"]) == {b"one": "a red apple"}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE answers DROP COLUMN checksum")
    with closing(AnswerCache(path)) as again:
        assert again.get([b"one"]) == {b"one": "a red apple"}
