"""The jobs of a deferred statement at its providers: cut, sent once, watched and read."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import structlog

from flightllm.deferred.store import BatchStore, Job
from flightllm.errors import EngineError
from flightllm.llm.batch_endpoint import BatchEndpoint, BatchLimits, LineResult
from flightllm.llm.cost import Work

_HEAD_BYTES = 256
"""Bytes of a line beside the body."""
_log = structlog.get_logger(__name__)

Endpoints = Callable[[str | None], AbstractContextManager[BatchEndpoint]]
"""Opens the batch endpoint of a model."""


def cut(prompts: Iterator[tuple[int, str]], limits: BatchLimits) -> Iterator[list[int]]:
    """Yield the numbers of the prompts of each job, so that no job is above the limits.

    Example: with a limit of 2 requests, the prompts 1, 2 and 3 make two jobs: one of 1 and 2, and one of 3.
    """
    numbers, size = list[int](), 0
    for number, body in prompts:
        more = len(body) + _HEAD_BYTES  # the body is ASCII
        if numbers and (len(numbers) >= limits.requests or size + more > limits.bytes):
            yield numbers
            numbers, size = [], 0
        numbers.append(number)
        size += more
    if numbers:
        yield numbers


class Jobs:
    """The jobs of one statement. One thread uses it."""

    def __init__(self, store: BatchStore, batch_id: str, endpoints: Endpoints) -> None:
        self._store = store
        self._batch = batch_id
        self._endpoints = endpoints

    def advance(self, *, cancelled: bool = False) -> bool:
        """Send the jobs that are not sent, and read those that have ended; return whether all have ended.

        With `cancelled`, ask the providers to stop, and send nothing.

        Raises:
            EngineUnavailableError: a provider cannot be reached; call again later.
            EngineError: a provider refuses a job.
        """
        open_jobs = self._store.jobs(self._batch)
        left = len(open_jobs)
        for job in open_jobs:
            with self._endpoints(job.model) as endpoint:
                left -= self._ended(job, endpoint, cancelled=cancelled)
        return left == 0

    def _ended(self, job: Job, endpoint: BatchEndpoint, *, cancelled: bool) -> bool:
        provider = job.provider
        if provider is None and job.tried:
            provider = endpoint.find(job.name, job.created)  # a crash can have come between the request and its note
            if provider is not None:
                self._store.sent_job(job.name, provider)
        if provider is None:
            if cancelled:
                self._store.end_job(job.name, (), "the statement was cancelled before the prompt was sent")
                return True
            lines = [endpoint.line(str(number), body) for number, body in self._store.bodies(job.name)]
            self._store.try_job(job.name)
            provider = endpoint.submit(job.name, lines)
            self._store.sent_job(job.name, provider)
            _log.info("batch sent", batch=self._batch, job=job.name, provider_id=provider, prompts=len(lines))
        state = endpoint.state(provider)
        if not state.ended:
            if cancelled:
                endpoint.cancel(provider)
            if state.ends is not None:
                self._store.sent_job(job.name, provider, state.ends)
            return False
        if state.failure:
            self._store.end_job(job.name, (), f"the provider refused the job: {state.failure}")
            if cancelled:
                return True
            raise EngineError(f"the provider refused the job {provider}: {state.failure}")
        got = self._store.end_job(
            job.name,
            list(self._results(endpoint, provider)),
            f"the provider's job ended ({state.word}) without an answer",
        )
        _log.info("batch ended", batch=self._batch, job=job.name, state=state.word, answers=got, at=time.time())
        return True

    @staticmethod
    def _results(endpoint: BatchEndpoint, provider: str) -> Iterator[tuple[int, LineResult, Work]]:
        for result in endpoint.results(provider):
            if result.custom_id.isdecimal() and result.custom_id.isascii():
                yield int(result.custom_id), result, endpoint.work(result)
