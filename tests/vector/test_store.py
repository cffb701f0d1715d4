"""All indexes of a server: found by name, replaced while in use, damaged ones reported."""

from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.errors import InvalidInputError, NotFoundError
from flightllm.vector.folder import IndexFolder
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.options import IndexOptions
from flightllm.vector.store import VectorIndexes
from tests.packages import needs
from tests.vector.test_index import EMBEDDER, SCHEMA, TEXTS, manifest, parts

pytestmark = needs("faiss", extra="vector")


def first_row(indexes: VectorIndexes, query: str, generation: str | None = None) -> int:
    """Return the id of the row that fits a query best."""
    index = indexes.open("fruit", generation)
    found = index.search(1, "vector", None, EMBEDDER.embed([query]))
    row: int = index.rows.take(found.ids)["id"][0].as_py()
    return row


def test_by_name(tmp_path: Path) -> None:
    """An index is there once it is built, for another server too, and gone once it is dropped."""
    indexes = VectorIndexes(tmp_path)
    assert indexes.names() == []
    with pytest.raises(NotFoundError, match="see SHOW VECTOR INDEXES"):
        indexes.open("fruit")
    indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    again = VectorIndexes(tmp_path)
    assert again.names() == ["fruit"]
    assert first_row(again, TEXTS[9]) == 9
    assert again.open("fruit") is again.open("fruit")
    again.drop("fruit")
    with pytest.raises(NotFoundError):
        again.drop("fruit")
    assert indexes.names() == []


def test_replaced_while_in_use(tmp_path: Path) -> None:
    """Who began with a generation goes on in it; others get the new one."""
    indexes = VectorIndexes(tmp_path)
    old = indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    used = indexes.open("fruit")
    indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS[::-1]))
    assert first_row(indexes, TEXTS[0]) == len(TEXTS) - 1
    assert indexes.open("fruit", old.generation) is used
    assert first_row(indexes, TEXTS[0], old.generation) == 0


def test_what_a_killed_first_build_leaves(tmp_path: Path) -> None:
    """Half an index, of which there is no manifest, is gone with the next start."""
    left = tmp_path / "index-fruit" / "abc-999999.part"
    left.mkdir(parents=True)
    (left / "vectors.raw").write_bytes(b"1")
    assert VectorIndexes(tmp_path).names() == []
    assert not list(tmp_path.iterdir())


def test_a_lost_manifest(tmp_path: Path) -> None:
    """The next start moves the index's files aside, and says so: nobody knows that they are of no use."""
    built = VectorIndexes(tmp_path).build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    folder = tmp_path / "index-fruit"
    files = {name: (folder / built.generation / name).read_bytes() for name in built.files}
    (folder / "manifest.json").unlink()
    with capture_logs() as events:
        assert VectorIndexes(tmp_path).names() == []
    [event] = events
    moved = Path(event["folder"]) / folder.name / built.generation
    assert {name: (moved / name).read_bytes() for name in files} == files


def test_a_killed_drop(tmp_path: Path) -> None:
    """The next start removes the rest of an index that was being dropped."""
    VectorIndexes(tmp_path).build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    (tmp_path / "index-fruit" / "manifest.json").rename(tmp_path / "index-fruit" / "dropped")
    assert VectorIndexes(tmp_path).names() == []
    assert not list(tmp_path.iterdir())


def test_replaced_while_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index whose files go while they are read, as a new one takes its place, is not damaged."""
    indexes, others = VectorIndexes(tmp_path), VectorIndexes(tmp_path)
    indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    check = IndexFolder.check
    replaced: list[IndexManifest] = []

    def replace_first(folder: IndexFolder, checked: IndexManifest) -> None:
        if not replaced:
            replaced.append(others.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS[::-1])))
        check(folder, checked)

    monkeypatch.setattr(IndexFolder, "check", replace_first)
    assert indexes.open("fruit").manifest == replaced[0]


def test_damaged(tmp_path: Path) -> None:
    """A damaged file says which index it is of and what to do; a new one takes its place."""
    indexes = VectorIndexes(tmp_path)
    built = indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    path = tmp_path / "index-fruit" / built.generation / "vectors.faiss"
    path.write_bytes(path.read_bytes()[:-9] + b"x" * 9)
    for use in (indexes.check, indexes.open):  # its size is right, and system.vector_indexes calls `check`
        with pytest.raises(InvalidInputError, match=r"'fruit' is damaged: its file vectors.faiss .* REFRESH"):
            use("fruit")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidInputError, match=r"'fruit' is damaged: its file vectors.faiss .* REFRESH"):
        indexes.check("fruit")
    indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    assert first_row(indexes, TEXTS[3]) == 3
    (tmp_path / "index-fruit" / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="its manifest cannot be read"):
        indexes.manifest("fruit")
    assert indexes.names() == ["fruit"]
    indexes.drop("fruit")
    assert indexes.names() == []


def test_any_name(tmp_path: Path) -> None:
    """A name is no path."""
    indexes = VectorIndexes(tmp_path / "vectors")
    names = ["../up", "a/b", "Ünïcode 名", ".", "..", "%2e", ""]
    for name in names:
        indexes.build(replace(manifest(IndexOptions()), name=name), SCHEMA, parts(TEXTS[:3]))
    assert indexes.names() == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]


def test_a_start_names_short_files(tmp_path: Path) -> None:
    """A start compares only sizes, so it is quick; a search compares all bytes."""
    indexes = VectorIndexes(tmp_path)
    built = indexes.build(manifest(IndexOptions()), SCHEMA, parts(TEXTS))
    with capture_logs() as log:
        VectorIndexes(tmp_path)
    assert log == []
    path = next(tmp_path.glob("index-fruit/*/rows.arrow"))
    path.write_bytes(path.read_bytes()[:-1])
    with capture_logs() as log:
        VectorIndexes(tmp_path)
    [line] = log
    assert (line["log_level"], line["index"]) == ("warning", built.name)
    assert "rows.arrow is missing or damaged" in line["error"]
