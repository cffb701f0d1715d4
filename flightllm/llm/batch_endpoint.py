"""The protocol of a provider's batch endpoint: many requests in files, answered within hours at a lower price."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flightllm.llm.cost import Prices, Work
from flightllm.llm.engine import Completion, Engine, Request


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most requests of one job, the most bytes of its file, and the most jobs of one statement at a time."""

    requests: int
    bytes: int
    jobs: int = 100


@dataclass(frozen=True, slots=True)
class Draft:
    """The body of one request, and a note that says how to read the answer.

    The note is a place, and then a word for each mark of the body, with spaces between.
    """

    body: Mapping[str, Any]
    note: str


@dataclass(frozen=True, slots=True)
class Lead:
    """How the prompts of a job share the starts that the provider stores."""

    ahead: tuple[int, ...]
    """The numbers of the prompts that go ahead in a job of their own, and store the starts for the others."""
    changed: Mapping[int, Draft]
    """The prompts that are sent with fewer marks, by their numbers."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """The outcome of one request of a job: the status and body of its HTTP response.

    Status 0 means that the provider did not process the request, and charges nothing for it; the body is then the
    reason.
    """

    custom_id: str
    status: int
    body: bytes

    @property
    def passes(self) -> bool:
        """Return whether the same request can succeed later."""
        return self.status in {0, 408, 409, 429} or self.status >= 500


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job: `ended` with the provider's word for it, `failure` if all of it was refused."""

    ended: bool
    word: str
    failure: str = ""
    ends: float | None = None
    """When the provider ends the job at the latest, in seconds since 1970."""
    answered: int = 0
    failed: int = 0
    ended_at: float | None = None
    """When the job ended, in seconds since 1970, if the provider says so."""
    queue_full: bool = False
    """Whether the provider refused the job only because it has too many others, or one that is too large."""
    room: int = 0
    """With `queue_full`: how many tokens can wait at the provider in all; 0 if it does not say."""
    refused_lines: tuple[tuple[int, bytes], ...] = ()
    """The lines that made the provider refuse the job, counted from 0, each with the body of its error."""


class BatchEndpoint(Protocol):
    """One provider's batch endpoint for one model. Thread-safe.

    Methods that ask the provider raise:

    - QueueFullError: the provider takes no further job at present; the call had no effect.
    - EngineUnavailableError: the provider cannot be reached or is busy; the same call can succeed later.
    - EngineError: the provider refuses the call; the message says what to change.
    """

    @property
    def limits(self) -> BatchLimits:
        """Return the provider's limits of one job."""

    @property
    def price(self) -> float:
        """Return the price of a token here, relative to an immediate request."""

    @property
    def write(self) -> float:
        """Return the price of a stored token here, relative to one of an immediate request at the same discount."""

    @property
    def reports(self) -> bool:
        """Return whether an answer tells how many tokens the provider stored."""

    @property
    def start_seconds(self) -> float:
        """Return for how long a stored start can surely be read."""

    def lead(self, drafts: Mapping[int, Draft]) -> Lead | None:
        """Return which of a job's prompts go ahead to store common starts; None if no prompt marks a start."""

    def unmarked(self, draft: Draft) -> Draft:
        """Return a draft that marks no start."""

    def learn(self, work: Work) -> None:
        """Learn from the work of a job whose prompts could read stored starts whether this saves anything."""

    def settle(self, request: Request) -> Completion | None:
        """Answer a request at once if only an answer tells in which form to send others like it; else return None."""

    def draft(self, request: Request) -> Draft:
        """Return the body that the engine would send for a request, in the form that the endpoint accepts as known."""

    def line(self, custom_id: str, body: str) -> bytes:
        """Return the line of a job's file for a body in JSON, without a line break."""

    def read(self, request: Request, note: str, result: LineResult, *, last: bool) -> Completion | None:
        """Return the completion for a result; None to ask again in another form, unless this is the `last` try."""

    def work(self, result: LineResult) -> Work:
        """Return the work that the provider charges for a result."""

    def find(self, name: str, since: float) -> str | None:
        """Return the provider's id of the job with this name, made after `since`, or None."""

    def submit(self, name: str, lines: Sequence[bytes]) -> str:
        """Send a job and return the provider's id for it."""

    def state(self, job: str) -> JobState:
        """Return the state of a job."""

    def results(self, job: str) -> Iterator[LineResult]:
        """Yield the results of a job that has ended, in any order."""

    def cancel(self, job: str) -> None:
        """Ask the provider to stop a job; it then ends with the results that came."""


class Batching:
    """The base of an engine that can have a batch endpoint; by default there is no such endpoint."""

    @property
    def batches(self) -> BatchEndpoint | None:
        """Return the batch endpoint, or None; this does not wait for the engine."""
        return None


def batch_prices(prices: Prices, endpoint: BatchEndpoint) -> Prices:
    """Return the prices of tokens at a batch endpoint."""
    return prices.scaled(endpoint.price, endpoint.write)


def batch_endpoint(engine: Engine) -> BatchEndpoint | None:
    """Return the batch endpoint of an engine, or None."""
    return engine.batches if isinstance(engine, Batching) else None
