"""The folder of an index: complete or as it was, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.errors import InvalidInputError
from flightllm.vector.folder import IndexFolder
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.options import IndexOptions

MANIFEST = IndexManifest(
    name="plots",
    table=("public", "movies"),
    column="movie_info",
    options=IndexOptions(type="ivf", lists=8, columns=("title", "year")),
    model="a model",
    revision="1",
    dimensions=4,
    rows=3,
    trained=2,
    nulls=1,
    source="abc",
    created="2026-01-02T03:04:05+00:00",
    generation="",
)


def write(folder: IndexFolder, content: bytes, then: Callable[[Path], object] = Path.exists) -> IndexManifest:
    """Write a generation of one file and one in a folder, and do something before it is complete."""
    with folder.writing() as path:
        (path / "index").write_bytes(content)
        (path / "words").mkdir()
        (path / "words" / "part").write_bytes(content[::-1])
        then(path)
        return folder.commit(path, MANIFEST)


def test_manifest_round_trip() -> None:
    """What is written is read again."""
    manifest = replace(MANIFEST, generation="g", files={"index": (3, "d")})
    assert IndexManifest.of_json(manifest.as_json()) == manifest


def test_no_flipped_bit_changes_a_manifest() -> None:
    """A flip anywhere is refused or changes nothing; a manifest of an earlier version has no checksum, and is read."""
    manifest = replace(MANIFEST, generation="g", files={"index": (3, "d")})
    content = manifest.as_json().encode()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 7
        with suppress(InvalidInputError):
            assert IndexManifest.of_json(changed.decode()) == manifest
    earlier = json.loads(content)
    del earlier["checksum"], earlier["failed"]
    assert IndexManifest.of_json(json.dumps(earlier)) == manifest


def test_an_unreadable_manifest_replaces_nothing(tmp_path: Path) -> None:
    """A build that fails while the manifest cannot be read leaves the present generation in place."""
    folder = IndexFolder(tmp_path / "index")
    present = write(folder, b"one")
    kept = (folder.path / "manifest.json").read_bytes()

    def damaged(_: Path) -> None:
        (folder.path / "manifest.json").write_bytes(b"")
        raise OSError("too many open files")

    with pytest.raises(OSError, match="too many"):
        write(folder, b"two", damaged)
    (folder.path / "manifest.json").write_bytes(kept)
    folder.check(present)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "name": "x"}'])
def test_what_is_no_manifest(text: str) -> None:
    """Anything else is an error of ours."""
    with pytest.raises(InvalidInputError):
        IndexManifest.of_json(text)


def test_generations(tmp_path: Path) -> None:
    """A new generation takes the place of the one before, which is removed."""
    folder = IndexFolder(tmp_path / "plots")
    assert folder.manifest() is None
    first = write(folder, b"first")
    second = write(folder, b"second")
    assert folder.manifest() == second
    assert (folder.generation(second) / "index").read_bytes() == b"second"
    assert not folder.generation(first).exists()
    folder.check(second)
    folder.remove()
    assert not folder.path.exists()


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """An error while writing changes nothing and leaves nothing."""
    folder = IndexFolder(tmp_path)
    first = write(folder, b"first")
    with pytest.raises(FileNotFoundError):
        write(folder, b"half", then=lambda path: (path / "nothing").read_bytes())
    assert folder.manifest() == first
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["manifest.json", first.generation])


@pytest.mark.parametrize("damage", ["shorter", "other", "gone", "manifest"])
def test_damage_is_found(tmp_path: Path, damage: str) -> None:
    """A file that is cut, changed or missing is named; so is a broken manifest."""
    folder = IndexFolder(tmp_path)
    manifest = write(folder, b"content")
    path = folder.generation(manifest) / "words" / "part"
    match damage:
        case "shorter":
            path.write_bytes(path.read_bytes()[:-1])
        case "other":
            path.write_bytes(b"Content")
        case "gone":
            path.unlink()
        case _:
            (tmp_path / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="manifest" if damage == "manifest" else "words/part"):
        folder.check(folder.manifest() or manifest)


_WRITER = """
import sys
from pathlib import Path
from flightllm.vector.folder import IndexFolder
from tests.vector.test_folder import write
folder = IndexFolder(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    write(folder, str(number).encode() * 5_000)
    number += 1
"""


@pytest.mark.parametrize("wait", [0.0, 0.011, 0.023, 0.037, 0.051])
def test_killed_while_writing(tmp_path: Path, wait: float) -> None:
    """After kill -9 at any moment there is a complete index, and the next process removes what was begun."""
    folder = IndexFolder(tmp_path)
    write(folder, b"before")
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)  # noqa: TID251 -- it is killed at any moment
        os.kill(writer.pid, signal.SIGKILL)
    manifest = folder.manifest()
    assert manifest is not None
    folder.check(manifest)
    folder.clean()
    assert [one.name for one in tmp_path.iterdir() if one.is_dir()] == [manifest.generation]
