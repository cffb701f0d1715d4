"""Read what a request to an endpoint raised: a fault that can pass, or an error of the request's own prompts."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import httpx2
import openai
import structlog

from flightllm.common.text import excerpt
from flightllm.engines.http_bodies import BodyError, RedirectError
from flightllm.engines.openai.answers import ErrorBodyError, MalformedError, MiscountError
from flightllm.engines.openai.capabilities import Refusal
from flightllm.engines.openai.faults import (
    Fault,
    FaultKind,
    error_of_body,
    error_text,
    hidden,
    is_over_context,
    read_fault,
    unreachable,
)

PROBE_SECONDS: Final = 5.0
"""The longest wait for a list of models, which an endpoint returns at once."""
_log = structlog.get_logger(__name__)


class RefusedError(Exception):
    """An error for one HTTP request that failed because of its prompts or its form; the message follows the engine."""

    of_request = True
    """Whether the endpoint rejected the request itself, so that it can accept another form."""
    of_lists = True
    """Whether the endpoint can accept the prompts one by one."""
    again = True
    """Whether to ask one by one even without retries (`max_retries` 0)."""

    def __init__(self, text: str, refusal: Refusal | None = None, said: str = "") -> None:
        super().__init__(text)
        self.refusal = refusal or Refusal("")
        self.said = said
        """The status and the endpoint's words; empty if it has rejected nothing."""

    @property
    def too_long(self) -> bool:
        """Return whether the model's context has no room for the prompt."""
        return is_over_context(self.refusal.text)


class UnreadableAnswerError(RefusedError):
    """An error for an accepted request whose answer cannot be read."""

    of_request = False
    again = False

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self.of_lists = isinstance(cause, MiscountError)


class FaultReader:
    """Reads the failures of one engine's requests. `what` is what the requests carry: prompts or texts."""

    def __init__(self, name: str, model: str, key: str, address: str, what: str = "prompt") -> None:
        self._name = name
        self._model = model
        self._key = key
        self._address = address
        self._what = what

    async def read(
        self, error: Exception, client: openai.AsyncOpenAI, count: int = 1, sent: Container[str] = ()
    ) -> Fault:
        """Return the fault for what `client` raised when it sent a request.

        `count` is the number of prompts in the request, and `sent` holds its optional parameters.

        Raises:
            RefusedError: the endpoint rejects the prompts or the form of the request, or its answer cannot be read.
        """
        match error:
            case openai.APITimeoutError():
                seconds = f" within {client.timeout:g} s" if isinstance(client.timeout, int | float) else " in time"
                return Fault(FaultKind.TIMEOUT, f"did not answer{seconds}")
            case openai.APIConnectionError():
                return await self._broken(error, client)
            case MiscountError() if count == 1:
                return _unreadable(error)
            case _:
                return self._read(error, sent)

    def unreachable(self, error: openai.APIConnectionError) -> str:
        """Return why there is no connection."""
        return f"cannot be reached: {hidden(unreachable(error), self._key)}"

    def _read(self, error: Exception, sent: Container[str]) -> Fault:
        match error:
            case ErrorBodyError():
                return self._read(error_of_body(error.document, self._address), sent)
            case openai.APIStatusError():
                fault = read_fault(error, self._model, self._key, sent)
                if fault.kind is FaultKind.REFUSED:
                    refused = RefusedError(fault.text, Refusal(error_text(error), fault.parameter), fault.said)
                    refused.of_request = error.status_code != 429 and error.status_code < 500
                    raise refused from error
                return fault
            case openai.APIError():
                return Fault(FaultKind.FAILED, f"failed: {hidden(excerpt(error.message), self._key)}")
            case BodyError() | MiscountError():
                raise UnreadableAnswerError(_unreadable(error).text, error) from error
            case MalformedError():
                return _unreadable(error)
            case RedirectError():
                raise UnreadableAnswerError(str(error)) from error  # others of its answers can be right
            case UnicodeEncodeError():
                raise RefusedError(f"cannot take a {self._what} with lone surrogates: UTF-8 cannot encode them")
        _log.warning("response not understood", engine=self._name, error_type=type(error).__name__)
        raise UnreadableAnswerError(f"returned a response that cannot be read ({type(error).__name__})") from error

    async def _broken(self, error: openai.APIConnectionError, client: openai.AsyncOpenAI) -> Fault:
        """Return the fault for a broken connection: no server is there, or it breaks off this answer."""
        cause = error.__cause__
        gone = Fault(FaultKind.UNREACHABLE, self.unreachable(error))
        if isinstance(cause, httpx2.DecodingError | httpx2.TooManyRedirects):
            return _unreadable(cause)
        if isinstance(cause, httpx2.ConnectError | httpx2.ProxyError):
            return gone
        try:
            await listed_models(client, PROBE_SECONDS)
        except openai.APIConnectionError:
            return gone
        except Exception:  # noqa: BLE001 - any other error shows that the endpoint answers
            _log.debug("endpoint answers a probe", engine=self._name)
        return Fault(FaultKind.BROKEN, f"broke off its answer: {excerpt(str(cause or error))}")


async def listed_models(client: openai.AsyncOpenAI, seconds: float) -> bytes:
    """Return the body of the endpoint's list of models; wait at most `seconds`, and do not try again."""
    quick = client.with_options(max_retries=0, timeout=seconds)
    listed = await quick.with_raw_response.models.list()
    return listed.http_response.content


def _unreadable(error: Exception) -> Fault:
    return Fault(FaultKind.BROKEN, f"returned an answer that cannot be read: {excerpt(str(error))}")
