"""The file of deferred statements."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.common.principal import Principal
from flightllm.deferred import store as module
from flightllm.deferred.store import BatchStore, Listed
from flightllm.errors import InternalError
from flightllm.execution.deferral import DeferredStatement, Forecast
from flightllm.llm.batch_endpoint import LineResult
from flightllm.llm.cost import Work

_STATEMENT = DeferredStatement("SELECT 1", None, {}, ("public",), Principal("ann", "user"), is_update=False)


def _with_job(folder: Path, prompts: int) -> BatchStore:
    """Return a store with a statement `s` whose prompts are in one job, `s-1-1`."""
    store = BatchStore(folder / "batches.sqlite")
    store.create("s", _STATEMENT, Forecast(prompts, None, None))
    store.add("s", [Listed(bytes([n]), None, 1, f"body {n}", "", "") for n in range(1, prompts + 1)])
    assert store.end_round("s", lambda _, found: [[number for number, _ in found]]) == 1
    return store


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    """A thread that goes on after the end does not open the file again."""
    store = _with_job(tmp_path, 1)
    store.close()
    (tmp_path / "batches.sqlite").unlink()
    with pytest.raises(InternalError, match="is closed"):
        store.book("s-1-1")
    assert not (tmp_path / "batches.sqlite").exists()


def test_jobs_are_read_and_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large job goes through in parts; results that come again after a failure count once."""
    monkeypatch.setattr(module, "_TOGETHER", 3)
    store = _with_job(tmp_path, 8)
    assert list(store.bodies("s-1-1")) == [(n, f"body {n}") for n in range(1, 9)]

    def results(most: int) -> Iterator[tuple[int, LineResult, Work]]:
        for number in range(1, most + 1):
            yield number, LineResult(str(number), 200, b"{}"), Work(1, 10, 0, 2)
        if most < 7:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        store.end_job("s-1-1", results(4), "gone")
    assert store.counts("s").answered == 3
    assert [job.name for job in store.jobs("s")] == ["s-1-1"]
    assert store.end_job("s-1-1", results(7), "gone") == 4
    assert store.works("s") == {None: Work(7, 70, 0, 14)}
    assert store.unbooked("s") == [("s-1-1", None, Work(7, 70, 0, 14))]
    assert (store.counts("s").answered, store.counts("s").failed) == (8, 1)
