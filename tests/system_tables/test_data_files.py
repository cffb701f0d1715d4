"""The table about data files."""

from contextlib import closing
from pathlib import Path

from flightllm.access.store import User
from flightllm.common.principal import Principal
from tests.databases import ask, small_database


def test_data_files(tmp_path: Path) -> None:
    """Admins see each file of stored tables with its rows, bytes and state; others see no row."""
    with closing(small_database(tmp_path)) as database:
        sql = 'SELECT "table", file, "rows", bytes, length(sha256) AS digits, status FROM system.data_files'
        rows = ask(database.session(), sql).rows
        assert [(row["table"], row["rows"], row["digits"], row["status"]) for row in rows] == [
            ("likes", 8, 64, "ok"),
            ("people", 9, 64, "ok"),
        ]
        folder = database.config.data_folder / "tables" / "files"
        assert [row["bytes"] for row in rows] == [(folder / row["file"]).stat().st_size for row in rows]
        database.access.store.add_user(User("bob", "user"))
        assert ask(database.session(Principal("bob", "user")), sql).rows == []
