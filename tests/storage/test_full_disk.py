"""A disk that is full: the statement fails, and nothing has changed."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, signal, sys
from pathlib import Path
import pyarrow as pa
from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.errors import LimitExceededError
from tests.catalogs import ingest, read, run

folder, most = Path(sys.argv[1]), int(sys.argv[2])
catalog = Catalog(LimitsConfig(), None, folder)
texts = [f"text {i * 7919 % 100_003}" for i in range(20_000)]
ingest(catalog, "t", {"a": list(range(20_000)), "s": texts})

def state():
    there = [p for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json.previous"]
    files = sorted((p.relative_to(folder).as_posix(), p.stat().st_size) for p in there)
    return read(catalog, "SELECT sum(a), count(DISTINCT s) FROM t"), catalog.tables(), files

before = state()
attempts = [
    lambda: ingest(catalog, "u", {"s": texts}),
    lambda: ingest(catalog, "t", {"a": [1] * 20_000, "s": texts}, "append"),
    lambda: ingest(catalog, "t", {"s": texts}, "replace"),
    lambda: run(catalog, "UPDATE t SET s = concat(s, 'x')"),
    lambda: run(catalog, "DELETE FROM t WHERE a % 2 = 0"),
]
if most < 100:  # too little for the list of tables too
    attempts += [
        lambda: run(catalog, "DROP TABLE t"), lambda: run(catalog, "CREATE VIEW v AS SELECT 1"),
        lambda: run(catalog, "CREATE TABLE e (a INT)"), lambda: run(catalog, "CREATE SCHEMA more"),
    ]
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for attempt in attempts:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        attempt()
    except LimitExceededError as error:
        assert "disk is full" in str(error) and str(folder) not in str(error), error
    else:
        raise AssertionError("it did not fail")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert state() == before, (before, state())
run(catalog, "DELETE FROM t WHERE a % 2 = 0", "DROP TABLE t")
catalog.close()
assert Catalog(LimitsConfig(), None, folder).tables() == []
print("as it was")
"""


@pytest.mark.parametrize("most", [20_000, pytest.param(50, marks=pytest.mark.slow)])
def test_nothing_changes(tmp_path: Path, most: int) -> None:
    """Data files, or the list of tables too, cannot be written whole: no statement changes anything or leaves files."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(most)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout.splitlines()[-1:] == ["as it was"], ran.stderr[-2_000:]


MERGES = """
import random, resource, signal, sys
from pathlib import Path
import pyarrow as pa
from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from tests.catalogs import ingest, read

catalog, noise = Catalog(LimitsConfig(), None, Path(sys.argv[1])), random.Random(1)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
for number in range(20):  # the 16th asks for a file of 1.6 MB
    ingest(catalog, "t", {"n": [number] * 100, "s": [noise.randbytes(1_000) for _ in range(100)]}, "create_append")
def count():
    [entry] = catalog.store.entries.values()
    return len(entry.rows.files)
before = count()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
ingest(catalog, "t", {"n": [20], "s": [b""]}, "append")
[found] = read(catalog, "SELECT count(*) AS n, sum(n) AS s FROM t")
print(before, count(), found["n"], found["s"], len(list(Path(sys.argv[1], "files").glob(".*"))))
"""


@pytest.mark.slow
def test_rows_are_added_where_a_merge_does_not_fit(tmp_path: Path) -> None:
    """An INSERT needs room for its own rows alone. Once there is room, the files are merged."""
    ran = subprocess.run(
        [sys.executable, "-c", MERGES, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.splitlines()[-1:] == ["20 1 2001 19020 0"], ran.stderr[-2_000:]
