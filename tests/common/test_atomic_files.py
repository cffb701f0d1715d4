"""Files written atomically: whole, or as they were."""

from pathlib import Path

import pytest

from flightllm.common.atomic_files import move_aside, set_database_aside, write_atomically


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    """The new content is there, and no file of the writing."""
    path = tmp_path / "manifest.json"
    for content in (b"old", b"new"):
        write_atomically(path, content)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails before the rename changes nothing and leaves nothing behind."""
    path = tmp_path / "manifest.json"
    write_atomically(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_is_set_aside_with_its_journals(tmp_path: Path) -> None:
    """The names belong together, and no earlier file is replaced, not even one that lost its database."""
    path = tmp_path / "a.sqlite"
    (tmp_path / "a.sqlite.damaged-1-wal").write_text("earlier")
    for number in (2, 3):
        path.write_text(f"database {number}")
        path.with_name("a.sqlite-wal").write_text(f"log {number}")
        assert set_database_aside(path) == tmp_path / f"a.sqlite.damaged-{number}"
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {
        "a.sqlite.damaged-1-wal": "earlier",
        "a.sqlite.damaged-2": "database 2",
        "a.sqlite.damaged-2-wal": "log 2",
        "a.sqlite.damaged-3": "database 3",
        "a.sqlite.damaged-3-wal": "log 3",
    }
    assert set_database_aside(path) is None


def test_files_are_moved_aside(tmp_path: Path) -> None:
    """Files and folders keep their names below a new folder; what is not there stays out, and is told."""
    for number in (1, 2):
        (tmp_path / "base" / "deep" / "folder").mkdir(parents=True)
        (tmp_path / "base" / "deep" / "folder" / "a").write_text(str(number))
        (tmp_path / "base" / "b").write_text(str(number))
        given = [Path("deep") / "folder", Path("b"), Path("gone")]
        aside = move_aside(tmp_path / "base", given, tmp_path / "aside")
        assert aside.folder == tmp_path / "aside" / str(number)
        assert aside.moved == [aside.folder / "deep" / "folder", aside.folder / "b"]
        assert aside.stayed == [tmp_path / "base" / "gone"]
        assert {(aside.folder / name).read_text() for name in ("b", "deep/folder/a")} == {str(number)}
        (tmp_path / "base" / "deep").rmdir()
