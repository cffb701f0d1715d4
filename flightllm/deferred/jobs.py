"""The jobs of a deferred statement at its providers: cut, sent once, watched and read."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import ceil
from typing import Final

import structlog

from flightllm.deferred.store import BatchStore, Job, Wait
from flightllm.errors import EngineError, EngineUnavailableError, QueueFullError
from flightllm.llm.batch_endpoint import BatchEndpoint, BatchLimits, JobState, LineResult
from flightllm.llm.cost import Work

_HEAD_BYTES = 256
"""Bytes of a line beside the body."""
FIRST_PAUSE: Final = 60.0
_MOST_PAUSE: Final = 3_600.0
"""Seconds until a job is sent again for which the provider has no room: they double with each refusal."""
_MOST_REFUSALS: Final = 30
"""The refusals of a day, which is how long a job can take anyway."""
_REFUSALS_TO_DIVIDE: Final = 3
"""Others can fill the queue, so smaller jobs help only now and then."""
_BYTES_PER_TOKEN: Final = 4
"""A rough guess of how many jobs a full one makes: those that are still too large are divided again."""
_BAD_REQUEST: Final = 400
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
        self._running = Counter[str | None]()
        """How many jobs of the statement each model's provider has."""
        self._full: dict[str | None, str] = {}
        """The models whose providers have rejected a job in this look, with their words."""

    def advance(self, *, cancelled: bool = False) -> bool:
        """Send the jobs that are not sent, and read those that have ended; return whether all have ended.

        With `cancelled`, ask the providers to stop, and send nothing.

        Raises:
            EngineUnavailableError: a provider cannot be reached, or takes no further job at present; call again later.
            EngineError: a provider refuses a job.
        """
        left, waits = 0, list[EngineUnavailableError]()
        self._full = {}
        self._running = Counter(job.model for job in self._store.jobs(self._batch) if job.provider is not None)
        for job in self._store.jobs(self._batch):
            try:
                with self._endpoints(job.model) as endpoint:
                    left += not self._ended(job, endpoint, cancelled=cancelled)
            except EngineUnavailableError as error:  # the other jobs do not wait for this one
                waits.append(error)
        if waits:
            raise waits[0]
        return left == 0

    def _ended(self, job: Job, endpoint: BatchEndpoint, *, cancelled: bool) -> bool:
        provider = job.provider
        if provider is None and job.tried:
            provider = endpoint.find(job.sent_as, job.created)  # a crash can have come between the request and its note
            if provider is not None:
                self._store.sent_job(job.name, provider)
        if provider is None:
            if cancelled:
                self._store.end_job(job.name, (), "the statement was cancelled before the prompt was sent")
                return True
            provider = self._sent(job, endpoint)
            if provider is None:
                return False
        state = endpoint.state(provider)
        if not state.ended:
            if cancelled:
                endpoint.cancel(provider)
            if state.ends is not None:
                self._store.sent_job(job.name, provider, state.ends)
            return False
        self._running[job.model] -= 1
        if state.failure:
            return self._refused(job, provider, state, cancelled=cancelled)
        self._read(job, provider, state, endpoint)
        return True

    def _read(self, job: Job, provider: str, state: JobState, endpoint: BatchEndpoint) -> None:
        """Keep the results of a job that has ended."""
        total = Work()

        def counted() -> Iterator[tuple[int, LineResult, Work]]:
            nonlocal total
            for number, result, work in self._results(endpoint, provider):
                total += work
                yield number, result, work

        self._store.lead_ended(job.name, state.ended_at or time.time())
        missing = f"the provider's job ended ({state.word}) without an answer"
        got = self._store.end_job(job.name, counted(), missing)
        _log.info("batch ended", batch=self._batch, job=job.name, state=state.word, answers=got, at=time.time())
        followed = self._store.followed(job.name)
        if followed is not None and followed.after is not None:
            endpoint.learn(total)

    def _sent(self, job: Job, endpoint: BatchEndpoint) -> str | None:
        """Send a job and return the provider's id for it; None while the statement has enough other jobs there.

        Raises:
            QueueFullError: the provider takes no further job yet.
        """
        if job.model in self._full:
            raise QueueFullError(self._full[job.model])
        wait = self._store.wait(job.name)
        if wait is not None and time.time() < wait.until and (wait.refusals or self._running[job.model] > 0):
            raise QueueFullError(wait.reason)
        if self._running[job.model] >= endpoint.limits.jobs or not self._can_follow(job, endpoint):
            return None
        lines = [endpoint.line(str(number), body) for number, body in self._store.bodies(job.name)]
        self._store.try_job(job.name)
        try:
            provider = endpoint.submit(job.sent_as, lines)
        except QueueFullError as error:
            self._full[job.model] = str(error)
            self._wait(job, str(error), too_large=error.too_large)
            raise
        self._store.sent_job(job.name, provider)
        self._running[job.model] += 1
        _log.info("batch sent", batch=self._batch, job=job.name, provider_id=provider, prompts=len(lines))
        return provider

    def _can_follow(self, job: Job, endpoint: BatchEndpoint) -> bool:
        """Return whether a job can be sent: it waits for the prompts that store starts for it.

        Starts that were not stored, or that can be gone, are not marked: each prompt would pay for storing them.
        """
        if (followed := self._store.followed(job.name, reports=endpoint.reports)) is None:
            found = endpoint.lead(self._store.marked(job.name))
            if found is not None:
                self._store.follow(job, found.ahead, found.changed)
            return found is None or not found.ahead
        if followed.after is None:
            return True
        if followed.ended is None:
            return False
        if not followed.stored or time.time() - followed.ended > endpoint.start_seconds:
            drafts = self._store.marked(job.name)
            self._store.redraft(job.name, {one: endpoint.unmarked(draft) for one, draft in drafts.items()})
            _log.info("batch without stored starts", batch=self._batch, job=job.name)
        return True

    def _refused(self, job: Job, provider: str, state: JobState, *, cancelled: bool) -> bool:
        """Send a refused job again if that can help; return whether the job has ended.

        Raises:
            QueueFullError: the job must wait for others.
            EngineError: the provider does not take the job.
        """
        if state.queue_full and not cancelled:
            self._wait(job, state.failure, state.room)
            raise QueueFullError(f"the provider has no room for the job {provider} yet: {state.failure}")
        numbers = [number for number, _ in self._store.bodies(job.name)]
        wrong = [
            (numbers[line], LineResult(str(numbers[line]), _BAD_REQUEST, body))
            for line, body in state.refused_lines
            if 0 <= line < len(numbers)
        ]
        if wrong and not cancelled:
            if len(wrong) == len(numbers):
                self._store.end_job(job.name, [(number, result, Work()) for number, result in wrong], state.failure)
                return True
            self._store.answer_lines(job.name, wrong)
            _log.info("batch sent again", batch=self._batch, job=job.name, without=len(wrong), reason=state.failure)
            return False
        self._store.end_job(job.name, (), f"the provider refused the job: {state.failure}")
        if cancelled:
            return True
        raise EngineError(f"the provider refused the job {provider}: {state.failure}")

    def _wait(self, job: Job, reason: str, room: int = 0, *, too_large: bool = False) -> None:
        """Send a job later, for which the provider has no room, or divide it.

        `room` are the tokens that can wait at the provider in all; 0 if that is unknown.

        Raises:
            EngineError: the provider has had no room for a day.
        """
        if self._running[job.model] > 0 and not too_large:  # one that ends makes room
            self._store.send_later(job.name, Wait(0, time.time() + _MOST_PAUSE, reason))
            return
        before = self._store.wait(job.name)
        refusals = 1 if before is None else before.refusals + 1
        if refusals > _MOST_REFUSALS:
            self._store.end_job(job.name, (), f"the provider refused the job: {reason}")
            raise EngineError(f"the provider has had no room for a job for a day: {reason}")
        wait = Wait(refusals, time.time() + min(FIRST_PAUSE * 2 ** (refusals - 1), _MOST_PAUSE), reason)
        sizes = {number: len(body) for number, body in self._store.bodies(job.name)}
        tokens = sum(sizes.values()) // _BYTES_PER_TOKEN
        too_large = too_large or 0 < room < tokens
        if len(sizes) < 2 or not (too_large or refusals % _REFUSALS_TO_DIVIDE == 0):
            self._store.send_later(job.name, wait)
            return
        each = ceil(len(sizes) / max(2, ceil(tokens / room) if room else 0))
        numbers = list(sizes)
        parts = [numbers[at : at + each] for at in range(0, len(numbers), each)]
        self._store.split(job, parts, Wait(refusals, 0.0, reason) if too_large else wait)
        _log.info("batch divided", batch=self._batch, job=job.name, prompts=len(numbers), each=each, reason=reason)

    @staticmethod
    def _results(endpoint: BatchEndpoint, provider: str) -> Iterator[tuple[int, LineResult, Work]]:
        for result in endpoint.results(provider):
            if result.custom_id.isdecimal() and result.custom_id.isascii():
                yield int(result.custom_id), result, endpoint.work(result)
