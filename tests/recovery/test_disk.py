"""A full disk costs the query that needs it, and no other."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import CacheConfig, LimitsConfig
from flightllm.errors import LimitExceededError
from flightllm.session.database import Database
from tests.databases import ask, open_database, small_database
from tests.disks import small_disk

NO_ROOM = r"disk is full.*\[limits\] spill_folder"


@pytest.fixture
def database(tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Open a database that may use so many megabytes of memory and one of the disk."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        monkeypatch.setenv("TMPDIR", str(disk))  # as the server's process does
        limits = LimitsConfig(memory_bytes=memory << 20, spill_folder=disk)
        with closing(open_database(tmp_path, limits=limits)) as database:
            yield database


@pytest.mark.parametrize(
    ("memory", "sql"),
    [
        pytest.param(
            60,
            "SELECT value, md5(CAST(value AS VARCHAR)) AS m FROM generate_series(1, 3000000) ORDER BY m",
            id="relational",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            8, "SELECT max(s || f) FROM (SELECT s, ai_filter('{s}?', s) AS f FROM texts)", id="between stages"
        ),
    ],
)
def test_full_spill_folder(database: Database, tmp_path: Path, sql: str) -> None:
    """The error names the settings and no path; the next query runs, and nothing is left on the disk."""
    session = database.session()
    session.update("CREATE TABLE texts AS SELECT repeat(value::text, 40) AS s FROM generate_series(1, 100000)")
    with pytest.raises(LimitExceededError, match=NO_ROOM) as raised:
        ask(session, sql)
    assert str(tmp_path) not in str(raised.value)
    assert ask(session, "SELECT ai_filter('Is it?', 'x') IS NOT NULL AS f").rows == [{"f": True}]
    assert list((tmp_path / "disk").rglob("*.arrow")) == []


def test_full_cache_disk(tmp_path: Path) -> None:
    """A query over a full disk for answers returns all of its rows, and the failure is counted."""
    with small_disk(tmp_path / "disk", 64 << 10) as disk:
        (disk / "filler").write_bytes(bytes(30 << 10))
        cache = CacheConfig(path=disk / "answers.sqlite")
        with closing(small_database(tmp_path, cache=cache)) as database:
            session = database.session()
            sql = "SELECT ai_gen('Tell of {n}', n) AS told FROM generate_series(1, 2000) AS g(n)"
            assert all(row["told"] for row in ask(session, sql).rows)
            [row] = ask(session, "SELECT failures FROM system.cache").rows
            assert row["failures"] > 0
