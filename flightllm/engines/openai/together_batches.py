"""Together's batches: its jobs have neither names nor metadata. Source: its API reference and Python package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from flightllm.engines.openai.batches import OpenAIBatches, full_queue, since_clock
from flightllm.llm.batch_endpoint import JobState

_RUNNING: Final = frozenset({"VALIDATING", "IN_PROGRESS", "CANCELLING", "FINALIZING"})


class TogetherBatches(OpenAIBatches):
    """The batches of Together's API; see `BatchEndpoint` for the methods. A job is known by the name of its file."""

    def line(self, custom_id: str, body: str) -> bytes:
        """Return a line of a job's file."""
        head = json.dumps({"custom_id": custom_id})
        return f'{head[:-1]}, "body": {body}}}'.encode("utf-8", "surrogatepass")

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the job whose file has this name."""

        async def found() -> str | None:
            for job in await self._get("/batches"):
                made = _seconds(job.get("created_at"))
                if made is not None and made < since_clock(since):
                    continue
                file = await self._get(f"/files/{job.get('input_file_id')}")
                if file.get("filename") == f"{name}.jsonl":
                    return str(job["id"])
            return None

        return self._asked(found)

    async def _upload(self, name: str, content: bytes) -> str:
        form = {"purpose": "batch-api", "file_name": f"{name}.jsonl", "file_type": "jsonl"}
        return str((await self._post_form("/files/upload", form, (f"{name}.jsonl", content)))["id"])

    async def _create(self, name: str, file: str) -> str:
        del name
        made = await self._post("/batches", {"input_file_id": file, "endpoint": self._path})
        return str((made.get("job") or made)["id"])

    def state(self, job: str) -> JobState:
        """Return the state of a job."""
        found = self._asked(lambda: self._get(f"/batches/{job}"))
        word = str(found.get("status")).upper()
        refused = word == "FAILED" and not (found.get("output_file_id") or found.get("error_file_id"))
        failure = str(found.get("error") or "no reason given") if refused else ""
        ends = _seconds(found.get("job_deadline"))
        return JobState(word not in _RUNNING, word.lower(), failure, ends, queue_full=full_queue(failure))

    async def _files(self, job: str) -> Sequence[str | None]:
        found: dict[str, Any] = await self._get(f"/batches/{job}")
        return found.get("output_file_id"), found.get("error_file_id")


def _seconds(moment: object) -> float | None:
    """Return a moment such as `2026-10-01T12:00:00Z` in seconds since 1970; None for another value."""
    try:
        found = datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
