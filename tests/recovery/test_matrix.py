"""Each file of a data folder is removed, emptied, cut and flipped: nothing is silently wrong, and no other is lost."""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.operators.cache import AnswerCache
from tests.recovery.matrix import Case, End, cases, make, run, table
from tests.servers import SupervisedServer

pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
pytest.importorskip("tantivy", reason="the extra 'vector' is not installed")

SAMPLE = {
    ("objects.json", "removed"): "refused",
    ("objects.json", "a bit flipped"): "refused",
    ("access.sqlite", "removed"): "refused",
    ("access.sqlite", "emptied"): "refused",
    ("tables/manifest.json", "removed"): "refused",
    ("tables/manifest.json", "a bit flipped"): "refused",
    ("tables/files/*.arrow", "removed"): "error of days",
    ("tables/files/*.arrow", "a bit flipped"): "error of days",
    ("tables/files/*.arrow", "a folder in its place"): "error of days",
    ("tables/files/*.arrow", "a link to itself in its place"): "error of days",
    ("kvstore/index.sqlite", "cut in half"): "warning",
    ("vectors/vectors.faiss", "cut in half"): "error of search, near",
    ("answers.sqlite", "cut in half"): "warning",
}
"""The cases that always run, and their ends."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """Return a data folder with each kind of file, and what queries answer on it."""
    folder = tmp_path_factory.mktemp("matrix") / "whole"
    return folder, make(folder)


def test_a_sample(whole: tuple[Path, Mapping[str, str]], tmp_path: Path) -> None:
    """One file of most kinds, with the damage that is most likely to be overlooked."""
    folder, wanted = whole
    chosen = [case for case in cases(folder) if (case.kind, case.damage) in SAMPLE and not case.seed]
    assert len(chosen) == len(SAMPLE)
    ends = {case: run(folder, case, wanted, tmp_path) for case in chosen}
    assert not [end for end in ends.values() if end.faults], table(ends)
    assert {(case.kind, case.damage): end.what for case, end in ends.items()} == SAMPLE
    [index] = [end for case, end in ends.items() if case.kind == "vectors/vectors.faiss"]
    assert index.said.startswith("error")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_files(whole: tuple[Path, Mapping[str, str]], tmp_path: Path) -> None:
    """Every file with every damage; `-s` prints the table."""
    folder, wanted = whole
    ends: dict[Case, End] = {case: run(folder, case, wanted, tmp_path) for case in cases(folder)}
    print(table(ends))  # noqa: T201
    assert not [end for end in ends.values() if end.faults], table(ends)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objects.json", "access.sqlite", "tables/manifest.json"])
def test_a_server_without_the_file(whole: tuple[Path, Mapping[str, str]], tmp_path: Path, name: str) -> None:
    """A real server says in one line which file is missing, and changes nothing else."""
    data = tmp_path / "data"
    subprocess.run(["/bin/cp", "-a", whole[0], data], check=True)
    (data / name).unlink()
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    with SupervisedServer(tmp_path, '[engine]\nkind = "fake"\n[embedding]\nkind = "fake"\n') as server:
        assert server.process.wait(60) == 1
        log = server.log.read_text()
    [line] = [line for line in log.splitlines() if line.startswith("error: ")]
    assert Path(name).name in line
    assert "Traceback" not in log
    unchanged = {path: content for path, content in before.items() if path.suffix not in {".sqlite", ".lock"}}
    assert [path for path, content in unchanged.items() if not path.exists() or path.read_bytes() != content] == []


@pytest.mark.parametrize("emptied", [False, True])
def test_answers_that_are_only_in_the_log(tmp_path: Path, emptied: bool) -> None:
    """SQLite deletes the write-ahead log of a lost file, so the server sets the log aside and begins anew."""
    path, copy = tmp_path / "answers.sqlite", tmp_path / "copy" / "answers.sqlite"
    copy.parent.mkdir()
    with closing(AnswerCache(path)) as cache:
        cache.put(b"k", "yes")
        cache.flush()
        log = path.with_name("answers.sqlite-wal").read_bytes()
        assert log
        shutil.copy(path.with_name("answers.sqlite-wal"), copy.parent)
    if emptied:
        copy.touch()
    with capture_logs() as said, closing(AnswerCache(copy)) as cache:
        assert cache.get([b"k"]) == {}
        cache.put(b"k", "no")
        cache.flush()
        assert cache.get([b"k"]) == {b"k": "no"}
    assert copy.with_name("answers.sqlite.damaged-1-wal").read_bytes() == log
    assert [line["log_level"] for line in said] == ["warning"]
