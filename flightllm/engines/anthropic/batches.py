"""Anthropic's batches of messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from flightllm.engines.anthropic.answers import read_message
from flightllm.engines.openai.answers import MalformedError
from flightllm.engines.openai.batches import OpenAIBatches
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.batch_endpoint import BatchLimits, JobState, LineResult
from flightllm.llm.cost import Work

if TYPE_CHECKING:
    from flightllm.engines.anthropic.client import MessagesClient

_LIMITS: Final = BatchLimits(100_000, 256_000_000)
_CLOCKS: Final = 3_600.0
"""Seconds by which the provider's clock can differ from ours."""
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error: a result has only the type."""
_UNKNOWN_STATUS: Final = 400


class AnthropicBatches(OpenAIBatches):
    """The batches of one endpoint; see `BatchEndpoint` for the methods.

    A batch has no name here, so the ids of its requests begin with the job's name.
    """

    write = 1.6
    """A start that stays for an hour costs 2 × to store, and one of five minutes 1.25 ×: a batch takes longer."""
    start_seconds = 3_000.0

    @property
    def limits(self) -> BatchLimits:
        """Return the limits of one batch."""
        return _LIMITS

    @property
    def _messages(self) -> MessagesClient:
        return cast("MessagesClient", self._client)  # see `MessagesClient.of`, which the engine calls

    def line(self, custom_id: str, body: str) -> bytes:
        """Return one request of a batch."""
        head = json.dumps({"custom_id": custom_id})
        return f'{head[:-1]}, "params": {body}}}'.encode("utf-8", "surrogatepass")

    def work(self, result: LineResult) -> Work:
        """Return the tokens that the message reports."""
        if result.status != 200:
            return Work()
        try:
            _, usage = read_message(result.body)
        except MalformedError:
            return Work(1)
        tokens = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.written_tokens
        return Work(1, *tokens)

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the batch whose requests have this name in their ids.

        Raises:
            EngineUnavailableError: a batch that can be this one still runs, and shows no ids yet.
        """
        open_: list[str] = []
        for batch in self._asked(lambda: self._messages.batches_since(since - _CLOCKS)):
            if batch.id in self._sent:
                if self._sent[batch.id] == name:
                    return batch.id
            elif batch.processing_status != "ended":
                open_.append(batch.id)
            elif batch.archived_at is None and any(one.startswith(f"{name}-") for one in self._ids(batch.id)):
                return batch.id
        if open_:
            raise EngineUnavailableError(
                f"the engine {self._engine.name} does not tell before its end whether the batch {open_[0]} has the"
                " prompts of a request without a reply"
            )
        return None

    def submit(self, name: str, lines: Sequence[bytes]) -> str:
        """Make a batch of the requests."""
        start = b'{"custom_id": "'
        named = [start + name.encode() + b"-" + line.removeprefix(start) for line in lines]
        content = b'{"requests": [' + b",\n".join(named) + b"]}"
        made: str = self._asked(lambda: self._messages.add_batch(content))
        self._sent[made] = name
        return made

    def state(self, job: str) -> JobState:
        """Return the state of a batch."""
        batch = self._asked(lambda: self._messages.batch(job))
        counts, ended = batch.request_counts, batch.processing_status == "ended"
        gone = "the provider removed the results, which it keeps for 29 days" if ended and batch.archived_at else ""
        failed = counts.errored + counts.canceled + counts.expired
        word = str(batch.processing_status)
        at = _seconds(batch.ended_at)
        return JobState(ended, word, gone, _seconds(batch.expires_at), counts.succeeded, failed, at)

    def results(self, job: str) -> Iterator[LineResult]:
        """Yield the results of a batch that has ended."""
        for custom_id, result in self._lines(job):
            yield _result(custom_id.rpartition("-")[2], result)

    def cancel(self, job: str) -> None:
        """Ask the provider to stop a batch; a batch that has ended stays as it is."""
        with suppress(EngineUnavailableError, EngineError):
            self._asked(lambda: self._messages.cancel_batch(job))

    def _ids(self, job: str) -> Iterator[str]:
        return (custom_id for custom_id, _ in self._lines(job))

    def _lines(self, job: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the ids and results of a batch; lines that name no request are left out."""
        content = self._asked(lambda: self._messages.batch_results(job))
        for line in content.split(b"\n"):
            try:
                document = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                continue
            if not isinstance(document, dict):
                continue
            custom_id, result = document.get("custom_id"), document.get("result")
            if isinstance(custom_id, str) and isinstance(result, dict):
                yield custom_id, result


def _result(custom_id: str, result: dict[str, Any]) -> LineResult:
    """Return a result in the form of an HTTP response."""
    kind, message, error = result.get("type"), result.get("message"), result.get("error")
    if kind == "succeeded" and isinstance(message, dict):
        return LineResult(custom_id, 200, json.dumps(message).encode())
    if kind in {"canceled", "expired"}:
        return LineResult(custom_id, 0, f"the batch {kind}".replace("batch canceled", "batch was cancelled").encode())
    if not isinstance(error, dict):
        return LineResult(custom_id, 0, b"the line has neither a message nor an error")
    inner = error.get("error")
    cause = inner if isinstance(inner, dict) else error
    status = _STATUS.get(str(cause.get("type")), _UNKNOWN_STATUS)
    return LineResult(custom_id, status, json.dumps({"type": "error", "error": cause}).encode())


def _seconds(moment: object) -> float | None:
    if not isinstance(moment, datetime):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
