"""The batch endpoint of OpenAI and of providers with the same files and batches, such as Groq and Azure."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import httpx2
import openai
from openai.types import Batch, BatchError, BatchRequestCounts
from openai.types.batch import Errors

from flightllm.engines.batch_starts import StartPrices, lead, with_marks
from flightllm.engines.openai.batch_rules import LIKE_OPENAI, RULES
from flightllm.engines.openai.fault_reader import FaultReader, RefusedError
from flightllm.engines.openai.faults import FaultKind
from flightllm.engines.openai.options import OpenAIOptions
from flightllm.engines.openai.usage import read_usage
from flightllm.engines.window import LoopThread
from flightllm.errors import EngineError, EngineUnavailableError, QueueFullError
from flightllm.llm.batch_endpoint import BatchLimits, Draft, JobState, Lead, LineResult
from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Request

if TYPE_CHECKING:
    from flightllm.engines.cache_rules import CacheRules
    from flightllm.engines.openai.capabilities import RequestPlan

_RESULT_BYTES: Final = 4 << 30
_TIMEOUT: Final = 600.0
"""Seconds for one HTTP request: a file of 200 MB takes minutes."""
NAME_KEY: Final = "flightllm"
"""The key of a job's metadata that holds its name."""
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled", "canceled", "error"})
"""The words of OpenAI for jobs that have ended, and other words of gateways."""
_CLOCKS: Final = 3_600.0
"""Seconds by which the provider's clock can differ from ours."""
_FIRST_ERROR: Final = 400
_LOST: Final = frozenset({"batch_expired", "batch_cancelled", "request_expired", "cancelled", "expired"})
"""The codes of requests that the provider did not process."""
_PASSING: Final = frozenset({FaultKind.RATE, FaultKind.GONE, FaultKind.UNREACHABLE, FaultKind.TIMEOUT})
_QUEUE_FULL: Final = "token_limit_exceeded"
_FULL_TEXT: Final = re.compile(r"enqueued token|too many (?:active |open |pending )?batch", re.IGNORECASE)
"""A job that is refused because of other jobs: OpenAI and Azure have the code, gateways only the words."""
_ROOM: Final = re.compile(r"\blimit(?: of|:) ([\d,]*\d) ?([KMB]?)\b", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}
_TOO_LARGE: Final = 413
_BUSY: Final = 429
_UNREADY: Final = frozenset({"pending", "running"})
"""The states of a file that Azure still imports; OpenAI's files are `processed` at once."""
_LOOKS_AT_FILE: Final = 60
_LOOK_SECONDS: Final = 2.0
_SAME_IN_ALL: Final = frozenset({"body.model", "model", "url", "method", "endpoint"})
T = TypeVar("T")


class Drafting(Protocol):
    """The engine, whose immediate requests have the same bodies."""

    @property
    def name(self) -> str:
        """Return the engine's name."""

    @property
    def cache_rules(self) -> CacheRules | None:
        """Return the rules of the provider's prefix cache, or None."""

    async def drafted(self, request: Request) -> tuple[RequestPlan, dict[str, Any]]:
        """Return the plan and the body of a request."""

    async def settled(self, request: Request) -> Completion | None:
        """Answer a request at once if its form is not known."""

    async def read_drafted(
        self, request: Request, place: int, marks: tuple[int, ...], status: int, body: bytes, *, last: bool
    ) -> Completion | None:
        """Return the completion for an answer; None to ask again. The request had this form, and these marks."""


class OpenAIBatches:
    """The files and batches of one endpoint; see `BatchEndpoint` for the methods."""

    quota_passes = False
    """Whether status 429 means that jobs wait, although the words are those of an account without credit."""
    write = 1.0
    start_seconds = 1_500.0
    """OpenAI keeps a start for 30 minutes."""

    def __init__(
        self,
        engine: Drafting,
        client: openai.AsyncOpenAI,
        loop: LoopThread,
        faults: FaultReader,
        options: OpenAIOptions,
        address: str,
        model: str = "",
    ) -> None:
        self._engine = engine
        self._model = model
        self._client = client
        self._loop = loop
        self._faults = faults
        self._address = address
        of_model = "/completions" if options.completions else "/chat/completions"
        self._path = of_model if _by_deployment(options) else f"/v1{of_model}"
        provider = options.known_provider.name
        known = RULES.get(provider, LIKE_OPENAI)
        self._limits = known.limits
        asked = options.batch_price != OpenAIOptions().batch_price
        self.price = options.batch_price if asked else known.price_of(model)
        rules = engine.cache_rules
        self._starts = StartPrices(rules.read, rules.write * self.write) if rules is not None else None
        self.reports = rules is not None and rules.reports
        self._reads = True
        """Whether prompts read the starts that others stored, as far as is known."""
        self._sent: dict[str, str] = {}
        """The names of the jobs that this process has sent, by their ids."""

    @property
    def limits(self) -> BatchLimits:
        """Return the provider's limits of one job."""
        return self._limits

    def lead(self, drafts: Mapping[int, Draft]) -> Lead | None:
        """Return which prompts go ahead to store common starts; see `batch_starts`."""
        if self._starts is not None and self._reads:
            return lead(drafts, self._starts)
        return Lead((), {number: self.unmarked(draft) for number, draft in drafts.items()}) if drafts else None

    def unmarked(self, draft: Draft) -> Draft:
        """Return a draft that marks no start."""
        return with_marks(draft, 0)

    def learn(self, work: Work) -> None:
        """Mark nothing any more if the prompts that followed paid more than without marks."""
        prices = self._starts
        if prices is not None and work.prompt_tokens:
            saved, paid = work.cached_tokens * (1 - prices.read), work.written_tokens * (prices.write - 1)
            self._reads = saved >= paid if self.reports else work.cached_tokens > 0

    def settle(self, request: Request) -> Completion | None:
        """Answer a request at once if its form is not known; otherwise return None."""
        return self._loop.run(self._engine.settled(request))

    def draft(self, request: Request) -> Draft:
        """Return the body that the engine would send, and the place of its form with its marks."""
        plan, body = self._loop.run(self._engine.drafted(request))
        return Draft(body, " ".join(map(str, (plan.place, *plan.marks))))

    def line(self, custom_id: str, body: str) -> bytes:
        """Return a line of a job's file."""
        head = json.dumps({"custom_id": custom_id, "method": "POST", "url": self._path})
        return f'{head[:-1]}, "body": {body}}}'.encode("utf-8", "surrogatepass")

    def read(self, request: Request, note: str, result: LineResult, *, last: bool) -> Completion | None:
        """Return the completion for a result; None to ask again in another form."""
        if not result.status:
            said = result.body.decode("utf-8", "replace")
            return Completion(request.id, None, f"the engine {self._engine.name} did not process the prompt: {said}")
        place, *marks = [int(word) for word in note.split() if word.isdecimal()] or [0]
        return self._loop.run(
            self._engine.read_drafted(request, place, tuple(marks), result.status, result.body, last=last)
        )

    def work(self, result: LineResult) -> Work:
        """Return the tokens that the answer reports."""
        if not result.status or result.status >= _FIRST_ERROR:
            return Work()
        document = _json(result.body)
        usage = read_usage(document if isinstance(document, dict) else {})
        tokens = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.written_tokens
        return Work(1, *tokens)

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the batch whose metadata has this name."""

        async def found() -> str | None:
            async for batch in self._client.batches.list(limit=100):
                if (batch.metadata or {}).get(NAME_KEY) == name:
                    return batch.id
                if batch.created_at and batch.created_at < since_clock(since):
                    return None
            return None

        return self._asked(found)

    def submit(self, name: str, lines: Sequence[bytes]) -> str:
        """Upload the file and make a batch of it.

        Raises:
            QueueFullError: the provider takes no further job at present, or no file of this size.
        """
        content = b"\n".join(lines) + b"\n"

        async def sent() -> str:
            return await self._create(name, await self._upload(name, content))

        return self._asked(sent)

    async def _upload(self, name: str, content: bytes) -> str:
        """Upload a file, and return its id once a job can use it."""
        file = await self._client.files.create(file=(f"{name}.jsonl", content), purpose="batch")
        for _ in range(_LOOKS_AT_FILE):
            if str(file.status) not in _UNREADY:
                break
            await asyncio.sleep(_LOOK_SECONDS)
            file = await self._client.files.retrieve(file.id)
        return file.id

    async def _create(self, name: str, file: str) -> str:
        """Make a batch of a file, and return its id."""
        path: Any = self._path  # Azure's older API has paths of its own
        batch = await self._client.batches.create(
            input_file_id=file, endpoint=path, completion_window="24h", metadata={NAME_KEY: name}
        )
        return batch.id

    def state(self, job: str) -> JobState:
        """Return the state of a batch."""
        batch = self._asked(lambda: self._retrieved(job))
        word = str(batch.status).lower()
        counts = batch.request_counts
        state = JobState(
            word in _ENDED,
            word,
            ends=batch.expires_at,
            answered=counts.completed if counts else 0,
            failed=counts.failed if counts else 0,
        )
        if word not in {"failed", "error"} or batch.output_file_id:
            return state
        return refused_state(state, (batch.errors.data if batch.errors else None) or [])

    def results(self, job: str) -> Iterator[LineResult]:
        """Yield the results in the batch's files of outputs and of errors."""
        for file in filter(None, self._asked(lambda: self._files(job))):
            content = self._asked(partial(self._content, file))
            for line in content.split(b"\n"):
                if line.strip() and (result := _result(line)) is not None:
                    yield result

    async def _retrieved(self, job: str) -> Batch:
        return await self._client.batches.retrieve(job)

    async def _get_batch(self, job: str) -> Batch:
        """Return a batch whose id has a slash, which is part of the path."""
        return Batch.model_construct(**_read_batch(await self._get(f"/batches/{job}")))

    async def _files(self, job: str) -> Sequence[str | None]:
        """Return the ids of the files of outputs and of errors."""
        batch = await self._retrieved(job)
        return batch.output_file_id, batch.error_file_id

    async def _get(self, path: str, *, headers: Mapping[str, str] | None = None, **query: Any) -> Any:
        return (await self._raw("GET", path, None, headers or {}, query)).json()

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return (await self._raw("POST", path, body)).json()

    async def _post_form(self, path: str, form: Mapping[str, str], file: tuple[str, bytes]) -> Any:
        headers = {"Content-Type": "multipart/form-data"}
        options: Any = {"headers": headers}
        response = await self._client.post(
            path, cast_to=httpx2.Response, body=dict(form), files={"file": file}, options=options
        )
        return response.json()

    async def _raw(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | bytes | None,
        headers: Mapping[str, str] = MappingProxyType({}),
        query: Mapping[str, Any] = MappingProxyType({}),
    ) -> httpx2.Response:
        """Send one request of a provider's own form, and return the response."""
        options: Any = {"headers": dict(headers), "params": dict(query)}
        if method == "GET":
            return await self._client.get(path, cast_to=httpx2.Response, options=options)
        if isinstance(body, bytes):
            return await self._client.post(path, cast_to=httpx2.Response, content=body, options=options)
        return await self._client.post(path, cast_to=httpx2.Response, body=dict(body or {}), options=options)

    async def _content(self, file: str) -> bytes:
        return (await self._client.files.content(file)).content

    def cancel(self, job: str) -> None:
        """Ask the provider to stop a batch; a batch that has ended stays as it is."""
        with suppress(EngineUnavailableError, EngineError):
            self._asked(lambda: self._client.batches.cancel(job))

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._client.close())

    def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call of the client; see `BatchEndpoint` for the errors."""
        return self._loop.run(self._called(call))

    async def _called(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except openai.OpenAIError as error:
            status = getattr(error, "status_code", None)
            if status in {404, 405, 501} and "batch" not in str(error).lower():
                raise EngineError(
                    f"the engine {self._engine.name} has no batch endpoint (HTTP {status}):"
                    " SET flightllm.delivery = 'immediate'"
                ) from error
            try:
                fault = await self._faults.read(error, self._client)
            except RefusedError as refused:
                said = f"the engine {self._engine.name} {refused}"
                if status == _TOO_LARGE or full_queue(str(error)):
                    raise QueueFullError(said, too_large=status == _TOO_LARGE) from error
                raise EngineError(said) from error
            said = f"the engine {self._engine.name} {fault.text}"
            if fault.kind is FaultKind.RATE or (self.quota_passes and status == _BUSY):
                raise QueueFullError(said) from error
            passes = fault.kind in _PASSING or _passes(error)
            raise (EngineUnavailableError if passes else EngineError)(said) from error


def batch_options(options: OpenAIOptions) -> OpenAIOptions:
    """Return the options for requests with large files."""
    return replace(options, response_bytes=_RESULT_BYTES, timeout=max(options.timeout, _TIMEOUT))


def check_status(address: str, status: int, body: bytes) -> None:
    """Check the status of an HTTP response inside of a file.

    Raises:
        APIStatusError: the status is an error.
    """
    if status >= _FIRST_ERROR:
        response = httpx2.Response(status, content=body, request=httpx2.Request("POST", address))
        raise openai.APIStatusError(f"HTTP {status}", response=response, body=_json(body))


def since_clock(since: float) -> float:
    """Return the time from which a provider's job can be one that was sent after `since`."""
    return since - _CLOCKS


def full_queue(text: str) -> bool:
    """Return whether a reason for a refusal is that other jobs wait."""
    return _FULL_TEXT.search(text) is not None


def refused_state(state: JobState, errors: Sequence[BatchError]) -> JobState:
    """Return the state of a job that the provider refused, with its reasons."""
    said = "; ".join(_said(one.message, one.line) for one in errors[:3]) or "no reason given"
    full = any(one.code == _QUEUE_FULL or _FULL_TEXT.search(one.message or "") for one in errors)
    first = 0 if any(one.line == 0 for one in errors) else 1
    rooms = [_room(one.message or "") for one in errors] if full else []
    lines = {
        one.line - first: json.dumps({"error": {"message": one.message, "code": one.code, "param": one.param}}).encode()
        for one in errors
        if one.line is not None
    }
    of_lines = bool(lines) and all(one.line is not None and not _of_all(one) for one in errors)
    refused = tuple(sorted(lines.items())) if of_lines else ()
    return replace(state, failure=said, queue_full=full, room=max(rooms, default=0), refused_lines=refused)


def _room(message: str) -> int:
    """Return the tokens in a message such as `Limit: 2,000,000 enqueued tokens` or `limit of 30K for`; 0 without."""
    found = _ROOM.search(message)
    return int(found[1].replace(",", "")) * _UNITS[found[2].upper()] if found else 0


def _of_all(error: BatchError) -> bool:
    """Return whether an error that names a line holds for each line: all have the same model, URL and method."""
    return error.param in _SAME_IN_ALL or "model" in (error.code or "") or "url" in (error.code or "")


def _by_deployment(options: OpenAIOptions) -> bool:
    """Return whether an address has the name of Azure's deployment, whose batches are above it."""
    return options.known_provider.name == "azure" and bool(options.api_version)


def batch_address(address: str, options: OpenAIOptions) -> str:
    """Return the address of files and batches."""
    return address.partition("/deployments/")[0] if _by_deployment(options) else address


def _read_batch(document: Any) -> dict[str, Any]:
    """Return the fields of a batch, with None in place of those that are missing."""
    found: dict[str, Any] = dict.fromkeys(Batch.model_fields)
    found |= {name: value for name, value in document.items() if name in found}
    counts = found["request_counts"]
    found["request_counts"] = BatchRequestCounts.model_construct(**counts) if isinstance(counts, dict) else None
    errors = (found["errors"] or {}).get("data") if isinstance(found["errors"], dict) else None
    read = [BatchError.model_construct(**one) for one in errors or [] if isinstance(one, dict)]
    found["errors"] = Errors.model_construct(data=read) if read else None
    return found


def _passes(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    return not isinstance(error, openai.APIStatusError) or status in {408, 409} or (status or 0) >= 500


def _result(line: bytes) -> LineResult | None:
    """Return the result in a line of a file; None for a line that names no request."""
    document = _json(line)
    if not isinstance(document, dict) or not isinstance(document.get("custom_id"), str):
        return None
    custom_id, response, error = document["custom_id"], document.get("response"), document.get("error")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        status = response.get("status_code")
        return LineResult(custom_id, status if type(status) is int else 200, json.dumps(response["body"]).encode())
    if isinstance(error, str) and error:
        error = {"message": error}
    if not isinstance(error, dict):
        return LineResult(custom_id, 0, b"the line has neither an answer nor an error")
    code, message = str(error.get("code") or ""), str(error.get("message") or "no reason given")
    if code in _LOST:
        return LineResult(custom_id, 0, message.encode("utf-8", "replace"))
    status = int(code) if code.isdecimal() and len(code) == 3 else 400
    return LineResult(custom_id, status, json.dumps({"error": dict(error)}).encode())


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _said(message: str | None, line: int | None) -> str:
    return f"{message or 'error'}{'' if line is None else f' (line {line})'}"
