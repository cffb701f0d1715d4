"""The reasons not to start are those of the server itself."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.access.store import User
from flightllm.cli import main
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.startable import reasons_not_to_start
from flightllm.storage.backup import back_up
from flightllm.storage.file_check import compare_all
from flightllm.storage.sealed import sealed
from tests.databases import rows


def _folder(folder: Path) -> Path:
    """Make a data folder with users, a user's table, a model and prompts."""
    database = _opened(folder)
    database.access.store.add_user(User("ann", "user"))
    database.session().update("GRANT CREATE ON SCHEMA public TO ann")
    database.session(Principal("ann", "user")).update("CREATE TABLE t AS SELECT 1 AS n")
    for version in ("Is it?", "Is it so?"):
        database.session().update(f"CREATE OR REPLACE PROMPT p AS '{version}'")
    database.close()
    return folder


def _opened(folder: Path) -> Database:
    return Database.open(Config(engine=EngineConfig("fake"), data_folder=folder))


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    "harm", [Path.unlink, lambda path: path.write_bytes(b""), _halve], ids=["gone", "empty", "cut"]
)
@pytest.mark.parametrize("name", ["access.sqlite", "objects.json", "tables/manifest.json"])
def test_one_file(name: str, harm: Callable[[Path], None], tmp_path: Path) -> None:
    """Each is told as the start tells it, by the function, by `doctor`, and by `backup` if it still copies."""
    folder = _folder(tmp_path / "data")
    assert list(reasons_not_to_start(folder)) == []
    harm(folder / name)
    for path in folder.glob("access.sqlite-*"):
        path.unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    [reason] = reasons_not_to_start(folder)
    assert {path: path.read_bytes() for path in before if path.exists()} == before
    with pytest.raises(FlightLLMError) as refused:
        _opened(folder)
    assert str(refused.value) == reason
    config = tmp_path / "server.toml"
    config.write_text(f'data_folder = "{folder}"\n[engine]\nkind = "fake"\n')
    told = CliRunner().invoke(main, ["doctor", "--config", str(config), "--listen", "127.0.0.1:0"])
    assert told.exit_code == 1
    assert f"broken data folder: no server starts with it\n       → {reason}" in told.output
    copied = CliRunner().invoke(main, ["backup", "--config", str(config), str(tmp_path / "copy")])
    assert copied.exit_code == 1
    assert "no server starts with it" in copied.output or not (tmp_path / "copy").exists()


def _content(folder: Path) -> dict[Path, bytes]:
    """Return all folders and files but the lock."""
    found = (path for path in folder.rglob("*") if path.name != ".lock")
    return {path: path.read_bytes() if path.is_file() else b"" for path in found}


def _refused(folder: Path) -> str:
    """Check that the function and the start give one reason, and that both change nothing; return the reason."""
    before = _content(folder)
    [reason] = reasons_not_to_start(folder)
    with pytest.raises(FlightLLMError) as refused:
        _opened(folder)
    assert str(refused.value) == reason
    assert _content(folder) == before
    return reason


@pytest.mark.parametrize("mounted", [False, True], ids=["gone", "not mounted"])
def test_the_whole_folder_of_tables(mounted: bool, tmp_path: Path) -> None:
    """Without it no server starts, and nothing makes it anew, until somebody deletes the mark beside it."""
    folder = _folder(tmp_path / "data")
    back_up(folder, tmp_path / "copy")
    assert (tmp_path / "copy" / "tables.made").read_bytes() == (folder / "tables.made").read_bytes()
    shutil.rmtree(folder / "tables")
    if mounted:
        (folder / "tables").mkdir()
    (folder / "vectors" / "index-lost" / "1-1").mkdir(parents=True)  # which a start moves aside
    reason = _refused(folder)
    assert "tables.made" in reason
    with pytest.raises(FlightLLMError, match=r"tables\.made"):
        back_up(folder, tmp_path / "another")
    config = tmp_path / "server.toml"
    config.write_text(f'data_folder = "{folder}"\n[engine]\nkind = "fake"\n')
    told = CliRunner().invoke(main, ["doctor", "--config", str(config), "--listen", "127.0.0.1:0", "--files"])
    assert told.exit_code == 1
    assert told.output.count(reason) == 2  # of the start, and of the comparison
    (folder / "tables.made").unlink()
    database = _opened(folder)
    database.session().update("CREATE TABLE u AS SELECT 1 AS n")
    database.close()
    assert (folder / "tables.made").exists()


def test_a_folder_of_an_earlier_version(tmp_path: Path) -> None:
    """It has no mark: it starts as before, and gets the mark once the server listens."""
    folder = _folder(tmp_path / "data")
    (folder / "tables.made").unlink()
    assert list(reasons_not_to_start(folder)) == []
    database = _opened(folder)
    assert not (folder / "tables.made").exists()
    database.tidy()
    assert (folder / "tables.made").exists()
    assert rows(database.session(), "SELECT n FROM t") == [{"n": 1}]
    database.close()


def test_no_mark_without_tables(tmp_path: Path) -> None:
    """A server that never had a table leaves no mark, so its folder of tables can be lost."""
    database = _opened(tmp_path / "data")
    database.tidy()
    database.close()
    shutil.rmtree(tmp_path / "data" / "tables")
    assert list(reasons_not_to_start(tmp_path / "data")) == []


def test_the_way_out_of_a_damaged_list(tmp_path: Path) -> None:
    """The error names all that must be moved away to begin without tables."""
    folder = _folder(tmp_path / "data")
    (folder / "tables" / "manifest.json").write_text("{")
    reason = _refused(folder)
    assert f"move the folder {folder / 'tables'} and the file {folder / 'tables.made'} away" in reason
    for name in ("tables", "tables.made"):
        (folder / name).rename(tmp_path / name)
    _opened(folder).close()


def test_owners_without_users(tmp_path: Path) -> None:
    """Neither a file of the users nor its mark is there, but somebody owns a table."""
    folder = _folder(tmp_path / "data")
    for path in folder.glob("access.*"):
        path.unlink()
    [reason] = reasons_not_to_start(folder)
    assert "'ann' owns tables" in reason
    with pytest.raises(FlightLLMError, match="'ann' owns tables"):
        _opened(folder)


def test_several_files(tmp_path: Path) -> None:
    """Each file has its own reason."""
    folder = _folder(tmp_path / "data")
    (folder / "access.sqlite").write_bytes(b"")
    (folder / "objects.json").unlink()
    (folder / "tables" / "manifest.json").write_text("{")
    assert len(list(reasons_not_to_start(folder))) == 3


def test_a_new_folder(tmp_path: Path) -> None:
    """A server makes what is missing."""
    assert list(reasons_not_to_start(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


def test_while_a_server_runs(tmp_path: Path) -> None:
    """A server's own files are no reason."""
    folder = _folder(tmp_path / "data")
    database = _opened(folder)
    assert list(reasons_not_to_start(folder)) == []
    database.close()


@pytest.mark.parametrize(("name", "key"), [("tables/manifest.json", "version"), ("objects.json", "format")])
def test_a_newer_version(name: str, key: str, tmp_path: Path) -> None:
    """Its files are not called damaged, and the error says what to start."""
    folder = _folder(tmp_path / "data")
    document = json.loads((folder / name).read_text())
    del document["checksum"]
    (folder / name).write_text(sealed(json.dumps({**document, key: 9})))
    reason = _refused(folder)
    assert reason.startswith(f"a newer version of FlightLLM wrote {name}")
    assert "Start the newer version" in reason
    if name != "objects.json":  # what the list of tables names can be elsewhere
        with pytest.raises(FlightLLMError, match="a newer version of FlightLLM"):
            back_up(folder, tmp_path / "copy")
    (folder / name).write_text(sealed(json.dumps({**document, key: 0})))
    assert "a newer version" not in _refused(folder)


@pytest.mark.parametrize("name", [".lock", "tables/.lock", "tables/reading", "tables/files"])
def test_a_path_of_a_wrong_kind(name: str, tmp_path: Path) -> None:
    """A folder in place of a lock, and a file in place of a folder, are reasons like the others."""
    folder = _folder(tmp_path / "data")
    (folder / name).rename(tmp_path / "away")
    if name.endswith(".lock"):
        (folder / name).mkdir()
    else:
        (folder / name).write_text("mine")
    reason = _refused(folder)
    assert str(folder / name) in reason
    assert ("estore" if name == "tables/files" else "ove it away") in reason
    (folder / name).rename(tmp_path / "wrong")
    if name == "tables/files":
        (tmp_path / "away").rename(folder / name)
    database = _opened(folder)
    assert rows(database.session(), "SELECT n FROM t") == [{"n": 1}]
    database.close()


@pytest.mark.parametrize("name", ["tables/manifest.json", "objects.json"])
def test_nested_too_deeply(name: str, tmp_path: Path) -> None:
    """A text that no parser reads is a damaged file, and no traceback."""
    folder = _folder(tmp_path / "data")
    (folder / name).write_text('{"a":' * 100_000)
    assert Path(name).name in _refused(folder)
    if name != "objects.json":
        for attempt in (lambda: back_up(folder, tmp_path / "copy"), lambda: compare_all(folder / "tables")):
            with pytest.raises(FlightLLMError, match=r"manifest\.json is damaged"):
                attempt()


def test_users_behind_a_link_to_nothing(tmp_path: Path) -> None:
    """The link counts as missing users, and nothing makes its target."""
    folder = _folder(tmp_path / "data")
    for path in folder.glob("access.*"):
        path.rename(tmp_path / path.name)
    (folder / "access.sqlite").symlink_to(tmp_path / "lost")
    assert "access.sqlite is missing" in _refused(folder)
    assert back_up(folder, tmp_path / "copy") == [str(folder / "access.sqlite")]
    assert not (tmp_path / "lost").exists()
    assert any("access.sqlite is missing" in reason for reason in reasons_not_to_start(tmp_path / "copy"))
