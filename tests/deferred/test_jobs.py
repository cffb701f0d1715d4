"""The jobs of a deferred statement whose provider takes no further job, or refuses a file for single lines."""

import re
import threading
from pathlib import Path

import pytest

from flightllm.llm.batch_endpoint import BatchLimits
from tests.batch_endpoint import batch_provider
from tests.deferred.test_deferral import ROWS, deferred, ended, in_order, opened, rows_of, state_of
from tests.servers import await_true

TEXTS = "SELECT id, ai_gen('Say', x, on_error => 'struct') AS a FROM t"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send refused jobs again soon, and look often."""
    monkeypatch.setattr("flightllm.deferred.jobs.FIRST_PAUSE", 0.05)
    monkeypatch.setattr("flightllm.deferred.deferral._MOST_PAUSE", 0.1)


@pytest.mark.parametrize("size", [ROWS, pytest.param(9, marks=pytest.mark.slow)])
def test_a_full_queue_is_awaited(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs above the provider's limit of waiting tokens are divided and sent later; each prompt is bought once."""
    monkeypatch.setattr("flightllm.engines.openai.batches.OpenAIBatches.limits", BatchLimits(size, 1 << 20))
    queue = 200
    with batch_provider(queue=queue, looks=2) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        row = ended(database, batch_id)
        assert (row["state"], row["error"], row["answered"]) == ("done", None, ROWS)
        assert len(provider.asked) == ROWS
        assert set(provider.asked.values()) == {1}
        words = [sum(len(one["body"]["messages"][-1]["content"].split()) for one in job) for job in provider.submitted]
        ends = [job["status"] for job in provider.jobs.values()]
        assert {"completed", "failed"} == set(ends)
        assert max(size for size, end in zip(words, ends, strict=True) if end == "completed") <= queue
        found = database.deferred.result(batch_id, session.principal).to_pylist()
        assert in_order(rows_of(session, TEXTS)) == in_order(found)
        assert not provider.chats


def test_others_in_the_queue_divide_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a provider rejects jobs with status 429, a statement asks for one job in a look, and stays in few parts."""
    monkeypatch.setattr("flightllm.engines.openai.batches.OpenAIBatches.limits", BatchLimits(ROWS // 2, 1 << 20))
    with batch_provider(busy=7) as provider, opened(tmp_path, provider) as database:
        row = ended(database, deferred(database.session(), TEXTS))
        assert (row["state"], row["error"], row["answered"]) == ("done", None, ROWS)
        assert len(provider.jobs) <= 6
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_a_statement_says_that_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While others fill the provider's queue, the statement shows the provider's words, and can be cancelled."""
    monkeypatch.setattr("flightllm.deferred.jobs.FIRST_PAUSE", 3_600.0)
    with batch_provider(queue=1) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, "SELECT ai_gen('Say', x) AS a FROM t WHERE id = 1")
        await_true(lambda: state_of(database, batch_id)["error"] is not None)
        assert "Enqueued token limit reached" in state_of(database, batch_id)["error"]
        database.deferred.cancel(batch_id, session.principal)
        assert ended(database, batch_id)["state"] == "cancelled"
        assert not provider.asked


def test_no_room_for_a_day_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that is larger than the provider's queue ends the statement with the provider's words."""
    monkeypatch.setattr("flightllm.deferred.jobs.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("flightllm.deferred.jobs._MOST_REFUSALS", 3)
    with batch_provider(queue=1) as provider, opened(tmp_path, provider) as database:
        row = ended(database, deferred(database.session(), "SELECT ai_gen('Say', x) AS a FROM t WHERE id = 1"))
        assert row["state"] == "failed"
        assert "Limit: 1 enqueued tokens" in row["error"]
        assert len(provider.jobs) == 4


@pytest.mark.slow
def test_a_busy_provider_is_asked_again(tmp_path: Path) -> None:
    """A job that is rejected with status 429 is sent again, and bought once."""
    with batch_provider(busy=3) as provider, opened(tmp_path, provider) as database:
        row = ended(database, deferred(database.session(), TEXTS))
        assert (row["state"], row["error"], row["answered"], row["failed"]) == ("done", None, ROWS, 0)
        assert set(provider.asked.values()) == {1}


def test_a_wrong_line_is_one_row(tmp_path: Path) -> None:
    """A file that is refused for two of its lines is sent again without these lines, whose rows fail."""

    def wrong(prompt: str) -> str:
        return "Invalid content" if re.search(r"row (7|24)\b", prompt) else ""

    with batch_provider(wrong_lines=wrong) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        row = ended(database, batch_id)
        assert (row["state"], row["error"], row["failed"]) == ("done", None, 2)
        found = {one["id"]: one["a"] for one in database.deferred.result(batch_id, session.principal).to_pylist()}
        assert [number for number, one in sorted(found.items()) if one["error"]] == [7, 24]
        assert "Invalid content" in found[7]["error"]
        assert set(provider.asked.values()) == {1}
        assert [len(job) for job in provider.submitted] == [ROWS, ROWS - 2]


@pytest.mark.slow
def test_open_jobs_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement has no more jobs at a provider than this allows, and sends the others later."""
    monkeypatch.setattr("flightllm.engines.openai.batches.OpenAIBatches.limits", BatchLimits(4, 1 << 20, 2))
    with batch_provider(looks=10_000) as provider, opened(tmp_path, provider) as database:
        batch_id = deferred(database.session(), TEXTS)
        await_true(lambda: len(provider.jobs) == 2 and min(provider.looked.values()) > 2)
        assert len(provider.jobs) == 2
        provider.looks = 1
        assert ended(database, batch_id)["state"] == "done"
        assert len(provider.jobs) == ROWS // 4
        assert set(provider.asked.values()) == {1}


def test_a_refused_file_is_not_taken_for_a_later_one(tmp_path: Path) -> None:
    """If a job fails to leave after its file was refused, the refused file says nothing about the lines that are left.

    The refused file has the wrong line at a place that another prompt has in the next file.
    """
    files, looked = list[str](), threading.Event()

    def fail(path: str) -> None:
        if path.startswith("/v1/batches?"):
            looked.set()
        if path == "/v1/files":
            files.append(path)
            if len(files) > 1 and not looked.is_set():
                raise ConnectionError("the connection is lost before a job is made")

    def wrong(prompt: str) -> str:
        return "Invalid content" if re.search(r"row 7\b", prompt) else ""

    with batch_provider(wrong_lines=wrong, before_reply=fail) as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, TEXTS)
        row = ended(database, batch_id)
        assert looked.is_set()
        assert (row["state"], row["error"], row["failed"]) == ("done", None, 1)
        found = {one["id"]: one["a"] for one in database.deferred.result(batch_id, session.principal).to_pylist()}
        assert [number for number, one in sorted(found.items()) if one["error"]] == [7]
        assert set(provider.asked.values()) == {1}
