"""Mistral's batches: its jobs have a form of their own. Source: its Python package, autumn 2026."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from flightllm.engines.openai.batches import NAME_KEY, OpenAIBatches, full_queue, since_clock
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.batch_endpoint import JobState

_JOBS: Final = "/batch/jobs"
_RUNNING: Final = frozenset({"QUEUED", "RUNNING", "CANCELLATION_REQUESTED"})
"""The states of a job that has not ended; the package takes unknown states for ended ones."""
_PAGE: Final = 100
_HOURS: Final = 24


class MistralBatches(OpenAIBatches):
    """The batches of Mistral's API; see `BatchEndpoint` for the methods."""

    def line(self, custom_id: str, body: str) -> bytes:
        """Return a line of a job's file."""
        head = json.dumps({"custom_id": custom_id})
        return f'{head[:-1]}, "body": {body}}}'.encode("utf-8", "surrogatepass")

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the job whose metadata has this name."""

        async def found() -> str | None:
            page = 0
            while True:
                document = await self._get(_JOBS, page=page, page_size=_PAGE, order_by="-created")
                jobs = [job for job in document.get("data") or [] if isinstance(job, dict)]
                for job in jobs:
                    if (job.get("metadata") or {}).get(NAME_KEY) == name:
                        return str(job["id"])
                if len(jobs) < _PAGE or any((job.get("created_at") or 0) < since_clock(since) for job in jobs):
                    return None
                page += 1

        return self._asked(found)

    async def _create(self, name: str, file: str) -> str:
        job = {
            "input_files": [file],
            "endpoint": self._path,
            "model": self._model,
            "metadata": {NAME_KEY: name},
            "timeout_hours": _HOURS,
        }
        return str((await self._post(_JOBS, job))["id"])

    def state(self, job: str) -> JobState:
        """Return the state of a job."""
        found = self._asked(lambda: self._get(f"{_JOBS}/{job}"))
        word = str(found.get("status"))
        ended = word not in _RUNNING
        failure = ""
        if word == "FAILED" and not (found.get("output_file") or found.get("error_file")):
            errors = [str(one.get("message")) for one in found.get("errors") or [] if isinstance(one, dict)]
            failure = "; ".join(errors[:3]) or "no reason given"
        answered, failed = (int(found.get(f"{kind}_requests") or 0) for kind in ("succeeded", "failed"))
        return JobState(ended, word.lower(), failure, None, answered, failed, queue_full=full_queue(failure))

    async def _files(self, job: str) -> Sequence[str | None]:
        found: dict[str, Any] = await self._get(f"{_JOBS}/{job}")
        return found.get("output_file"), found.get("error_file")

    def cancel(self, job: str) -> None:
        """Ask the provider to stop a job; a job that has ended stays as it is."""
        with suppress(EngineUnavailableError, EngineError):
            self._asked(lambda: self._post(f"{_JOBS}/{job}/cancel", {}))
