"""Opening a database."""

from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.access.file import AccessFile
from flightllm.access.store import AccessStore, User
from flightllm.config import Config, EngineConfig
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.session.database import Database
from flightllm.sql.grants import Grant
from tests.databases import open_database


@pytest.mark.parametrize(("mode", "warned"), [(0o700, False), (0o755, True), (None, False)])
def test_a_data_folder_that_others_may_read(tmp_path: Path, mode: int | None, warned: bool) -> None:
    """It is used as it is, with a warning; a new one is for its owner alone."""
    folder = tmp_path / "data"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    with capture_logs() as events:
        open_database(folder).close()
    assert any("can read the data folder" in event["event"] for event in events) == warned
    assert folder.stat().st_mode & 0o777 == (mode or 0o700)


def test_owned_tables_without_the_users(tmp_path: Path) -> None:
    """A folder of an older version has no file that tells of users, but owners of tables tell of them."""
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))) as database:
        database.access.store.add_user(User("bob", "user"))
        database.access.store.grant([Grant("bob", "CREATE", "SCHEMA", "public", "")])
        with closing(database.session(database.access.store.user("bob").principal)) as session:
            session.update("CREATE TABLE t AS SELECT 1 AS a")
    for name in ("access.sqlite", "access.made"):
        (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=r"'bob' owns .* restore access.sqlite"):
        Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    AccessFile(tmp_path / "access.sqlite").reset()
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))) as database:
        database.tidy()
    with (
        closing(AccessStore(tmp_path / "access.sqlite")) as store,
        pytest.raises(InvalidInputError, match="an earlier user had the name"),
    ):
        store.add_user(User("bob", "user"))
