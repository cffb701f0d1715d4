"""Folders that were replaced go with the last reader that may know them."""

from pathlib import Path

from flightllm.storage.folder import Readers


def test_folders_go_in_order(tmp_path: Path) -> None:
    """Each folder waits for the readers opened before it was retired, in whatever order they end, and for no others."""
    readers, folders = Readers(), [tmp_path / str(n) for n in range(3)]
    opened = []
    for folder in folders:
        folder.mkdir()
        opened.append(readers.open())
        readers.retire(folder)
    last = readers.open()
    opened[1].close()
    opened[1].close()
    assert all(folder.exists() for folder in folders)
    opened[0].close()
    assert [folder.exists() for folder in folders] == [False, False, True]
    opened.clear()  # forgotten, not closed
    assert not folders[2].exists()
    last.close()


def test_a_reader_forgotten_inside_the_lock(tmp_path: Path) -> None:
    """It waits for nothing, and what only it could read goes with the next one."""
    readers = Readers()
    reader = readers.open()
    readers.retire(tmp_path)
    with readers._lock:
        del reader
    assert tmp_path.exists()
    readers.open()
    assert not tmp_path.exists()
