"""A server killed while it builds an index: the index is as it was before, or as it was to be."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.packages import needs
from tests.servers import ServerProcess, await_true

pytestmark = needs("faiss", "tantivy", extra="vector")


ROWS, ADDED = 30_000, 5_000
DOCS = f"""CREATE TABLE docs AS SELECT value AS id, [sin(value), cos(value), sin(value * 1.7), cos(value * 0.3)] AS v
    FROM generate_series(1, {ROWS})"""
MORE = f"""INSERT INTO docs SELECT value, [sin(value), cos(value), sin(value * 1.7), cos(value * 0.3)]
    FROM generate_series({ROWS} + 1, {ROWS + ADDED})"""
NEAREST = "SELECT vector_search('i', v, top_k => 1)[1]['id'] FROM (SELECT id, v FROM docs WHERE id = {id})"


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["REFRESH VECTOR INDEX i", "CREATE OR REPLACE VECTOR INDEX i ON docs(v)"])
@pytest.mark.parametrize("wait", [0.0, 0.05, 0.2])
def test_killed_while_building(tmp_path: Path, statement: str, wait: float) -> None:
    """Searches find the old rows at once, and all of them once it is built again."""
    with ServerProcess(tmp_path, 1, 16) as first:
        first.query(DOCS)
        first.query("CREATE VECTOR INDEX i ON docs(v) OPTIONS (type 'ivf')")
        first.query(MORE)
        command = [sys.executable, "-m", "flightllm", "query", "--uri", first.uri, statement]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
            await_writing(tmp_path)
            time.sleep(wait)  # noqa: TID251 -- it is killed at any moment
            first.kill()
            client.wait(60)
    with ServerProcess(tmp_path, 1, 16) as second:
        [(rows, status)] = second.query("SELECT rows, status FROM system.vector_indexes")
        assert rows in {ROWS, ROWS + ADDED}
        assert "damaged" not in status
        assert second.query(NEAREST.format(id=77)) == [(77,)]
        assert second.query("REFRESH VECTOR INDEX i") == []
        assert second.query("SELECT rows, status FROM system.vector_indexes") == [(ROWS + ADDED, "ready")]
        assert second.query(NEAREST.format(id=ROWS + 7)) == [(ROWS + 7,)]
        assert len(generations(tmp_path)) == 1


def await_writing(folder: Path) -> None:
    """Wait until another generation of the index is being written."""
    await_true(lambda: len(generations(folder)) >= 2, look=0.001)


def generations(folder: Path) -> list[Path]:
    """Return the generations of the index that are on disk, complete or not."""
    return [path for path in (folder / "vectors").glob("*/*") if path.is_dir()]
