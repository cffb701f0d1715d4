"""Classify the errors of an OpenAI-compatible endpoint: key, quota, rate, model, path, or no connection."""

from __future__ import annotations

import json
import math
import re
import socket
import ssl
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

import httpx2
import openai

from flightllm.common.text import excerpt

_GONE = frozenset({502, 503, 504, 529})
_REFUSED = frozenset({400, 413, 415, 422, 451})
_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
    }
)
_QUOTA_TEXT = re.compile(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|exceeded your current quota|credit balance is too low"
    r"|out of credits|more credits|billing (?:hard )?limit|payment required|account is not active|spending limit",
    re.IGNORECASE,
)
_LATER = re.compile(r"(?:retry|try again|wait)\b.{0,30}\b(?:in|for)\b.{0,12}\d", re.IGNORECASE)
"""The time of the next try: an error of a rate limit contains it, an error of an empty account does not."""
_MODEL_CODES = frozenset(
    {"model_not_found", "deploymentnotfound", "invalid_model", "model_not_available", "unknown_model"}
)
_MODEL_TEXT = re.compile(
    r"\bmodel\b.{0,200}?(?:not found|not exist|not a valid|not available|unavailable|not deployed)"
    r"|\b(?:unknown|invalid|no such|not a valid|unable to access|could not find)\b.{0,20}\bmodel\b"
    r"|^model: \S+$|\bmodels/\S+ is not found|\bdeployment\b.{0,80}not exist",
    re.IGNORECASE | re.DOTALL,
)
_MODEL_ALONE = re.compile(
    r"invalid model\b|model not exist|unknown model|\S+ is not a valid model id|the model `\S+` does not exist",
    re.IGNORECASE,
)
_WAIT = re.compile(
    r"(?:retry|again|wait)\b.{0,30}?\b(?:in|for|after)\s+((?:\d+(?:\.\d+)?\s*(?:ms|h|m|s)[a-z]*\s*)+)", re.IGNORECASE
)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_UNITS = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0})
_TOO_LARGE = re.compile(
    r"(?:request|prompt|input|message)s?\b.{0,40}\btoo (?:large|long|big)|context (?:length|window|size).{0,40}exceed"
    r"|exceed\w*.{0,60}context (?:length|window|size)|larger than the max",
    re.IGNORECASE,
)
_OVER_CONTEXT = re.compile(
    r"maximum context|context[ _](?:length|window|size)|token count\b.{0,60}\bexceed|too many (?:input |prompt )?tokens"
    r"|(?:request|prompt|input|message)s?\b.{0,60}\b(?:too (?:long|large|big)|longer than|exceeds? the (?:max|limit))"
    r"|reduce the length of the (?:input|prompt|message)|tokens?`? must be <= ?\d",
    re.IGNORECASE,
)
"""The texts of vendors and servers for a prompt that their model's context has no room for."""
_LIMITED = re.compile(r"\blimit:?\s*([\d,]*\d)\b(?!.{0,40}\bused\b).{0,40}?\brequested:?\s*([\d,]*\d)", re.IGNORECASE)
"""A rate limit below what one request needs."""
_STATUS = re.compile(r"[45][0-9]{2}")
_MASKED = re.compile(r"[\w-]*\*{3,}[\w*-]*")
"""A key that an endpoint shows with its middle masked."""
_LOGPROBS = "logprobs"
_MOST_CAUSES = 8


class FaultKind(Enum):
    """The kind of an HTTP error, which decides about later requests."""

    KEY = auto()
    """The key is wrong."""
    DENIED = auto()
    """The key has no access, or a filter before the model rejects this prompt."""
    QUOTA = auto()
    """The account is empty: a retry does not help."""
    RATE = auto()
    """Too many requests for now."""
    MODEL = auto()
    PATH = auto()
    GONE = auto()
    """The endpoint is overloaded, or a proxy before it reports that it is gone."""
    REFUSED = auto()
    """The endpoint rejects the form or the prompt of this request."""
    FAILED = auto()
    TIMEOUT = auto()
    BROKEN = auto()
    """The answer breaks off, or cannot be read."""
    UNREACHABLE = auto()
    """No server answers at the address."""


ACCOUNT: Final = frozenset({FaultKind.KEY, FaultKind.QUOTA, FaultKind.MODEL, FaultKind.DENIED, FaultKind.PATH})
"""Faults that the next prompts can get too, until somebody changes the configuration or the account."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason of an HTTP error: `what` follows the engine's name in a message, `advice` says what to change."""

    kind: FaultKind
    what: str
    advice: str = ""
    parameter: str = ""
    """The rejected parameter, if the endpoint names it."""
    wait: float | None = None
    """The seconds after which the endpoint wants the next request, if it says so."""
    said: str = ""
    """The HTTP status and the endpoint's words, if it rejects this request or fails."""

    @property
    def text(self) -> str:
        """Return `what` and `advice` as one sentence."""
        return f"{self.what}; {self.advice}" if self.advice else self.what


def read_fault(error: openai.APIStatusError, model: str, key: str, sent: Container[str] = ()) -> Fault:
    """Return the fault for an HTTP status and body. The fault quotes the endpoint's own words, without the key.

    `sent` holds the optional parameters of the request.
    """
    status, said = error.status_code, _said(error, key)
    if status == 403 and _LOGPROBS in sent and _LOGPROBS in error_text(error):  # the key is valid
        return Fault(FaultKind.REFUSED, f"rejected the request: HTTP {status}{said}", parameter=_LOGPROBS)
    kind, words = _kind(status, error), f"{status} {error_text(error)}"
    match kind:
        case FaultKind.DENIED:
            return Fault(kind, f"denies access (HTTP 403){said}", "check what the key and its project can use")
        case FaultKind.KEY:
            return Fault(kind, f"rejects the API key (HTTP {status}){said}", "correct the key to which api_key refers")
        case FaultKind.QUOTA:
            return Fault(kind, f"has no quota left (HTTP {status}){said}", "add credit, or use another key")
        case FaultKind.RATE:
            return Fault(
                kind,
                f"limits the rate (HTTP {status}){_wait(error)}{said}",
                "lower max_in_flight, or set requests_per_minute and tokens_per_minute",
                wait=asked_wait(error),
            )
        case FaultKind.MODEL:
            return Fault(kind, f"has no model {model!r} (HTTP {status}){said}", "correct model")
        case FaultKind.PATH:
            path = error.request.url.path
            return Fault(
                kind, f"has no API at {path} (HTTP {status}){said}", "correct base_url, which usually ends in /v1"
            )
        case FaultKind.GONE:
            return Fault(kind, f"is overloaded or gone (HTTP {status}){said}", wait=asked_wait(error))
        case FaultKind.REFUSED:
            return Fault(
                kind, f"rejected the request: HTTP {status}{said}", parameter=_named_parameter(error), said=words
            )
        case _:
            return Fault(kind, f"failed (HTTP {status}){said}", wait=asked_wait(error), said=words)


def error_of_body(document: Mapping[str, Any], url: str) -> openai.APIStatusError:
    """Return the HTTP error that a body holds which came with the status of a success."""
    found = _error(document)
    said = [found.get(name) for name in ("code", "status", "type")] if isinstance(found, dict) else []
    codes = (one for one in said if isinstance(one, int | str) and _STATUS.fullmatch(str(one)[:4]))
    status = int(next(codes, 400 if "invalid_request_error" in said else 500))
    body = json.dumps(document).encode()  # in ASCII: a text can have lone surrogates
    response = httpx2.Response(status, content=body, request=httpx2.Request("POST", url))
    return openai.APIStatusError(f"HTTP {status} in the body", response=response, body=None)


def unreachable(error: BaseException) -> str:
    """Return why a connection failed, and what to check: the host name, port, certificate or proxy."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "the host name is unknown: correct base_url, or check the network's DNS"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({excerpt(cause.verify_message, 100)}): check the host of base_url"
        if isinstance(cause, ssl.SSLError):
            return "TLS fails: check whether base_url needs http:// instead of https://"
        if isinstance(cause, ConnectionRefusedError):
            return "no server listens at this address: start the server, or correct base_url"
        if isinstance(cause, httpx2.ProxyError):
            return f"the proxy fails ({excerpt(str(cause), 100)}): correct proxy or HTTPS_PROXY"
        if isinstance(cause, httpx2.ConnectTimeout):
            return "the host does not answer in time: correct base_url, or check the network and its proxy"
    return excerpt(str(causes[-1] if len(causes) < 2 else causes[1]))


def line_to_change(kind: FaultKind, *, key: str = "", model: str = "…", section: str = "engine") -> str:
    """Return the end of an error that names the line of the configuration to change; empty if no line is wrong.

    `key` refers to the API key, as `env:NAME` or `file:PATH`; `model` is one of the endpoint's models.
    """
    lines = {
        FaultKind.KEY: f'api_key = "{key}"',
        FaultKind.DENIED: f'api_key = "{key}"',
        FaultKind.QUOTA: f'api_key = "{key}"',
        FaultKind.MODEL: f'model = "{model}"',
        FaultKind.PATH: 'base_url = "http://HOST:PORT/v1"',
        FaultKind.UNREACHABLE: 'base_url = "http://HOST:PORT/v1"',
    }
    return f"; the line to change is [{section}] {lines[kind]}" if kind in lines else ""


def asked_wait(error: openai.APIStatusError) -> float | None:
    """Return the seconds after which an endpoint wants the next request, from its headers or its text, or None."""
    headers = error.response.headers
    milliseconds, after = _number(headers.get("retry-after-ms")), headers.get("retry-after", "")
    if milliseconds is not None:
        return milliseconds / 1_000
    if (seconds := _number(after)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        pass
    found = _WAIT.search(error_text(error))
    if found is None:
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in _TIME.findall(found[1]))


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if 0 <= found < math.inf else None


def error_text(error: openai.APIStatusError) -> str:
    """Return the error text of the body in any of the known formats; empty if the body has no text."""
    return _message(_json(error.response)) or _plain(error.response)


def _named_parameter(error: openai.APIStatusError) -> str:
    """Return the parameter that the body blames; empty if the body names no parameter."""
    document = _error(_json(error.response))
    found = document.get("param") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def hidden(text: str, key: str) -> str:
    """Return a text in which `…` replaces the key, whole or masked."""
    return _MASKED.sub("…", text.replace(key, "…") if len(key) > 5 else text)


def _kind(status: int, error: openai.APIStatusError) -> FaultKind:
    text, code = error_text(error), _code(_json(error.response))
    if status in {400, 402, 403, 429} and _is_quota(status, text, code, error.response):
        return FaultKind.QUOTA
    if (status == 429 or status >= 500) and _is_too_large(text):
        return FaultKind.REFUSED
    if status == 429:
        return FaultKind.RATE
    if status in {401, 407}:
        return FaultKind.KEY
    if status in {400, 403, 404, 422} and (code.lower() in _MODEL_CODES or _is_model(status, text)):
        return FaultKind.MODEL
    if status == 403:
        return FaultKind.DENIED
    if status in {404, 405}:
        return FaultKind.PATH
    return FaultKind.GONE if status in _GONE else FaultKind.REFUSED if status in _REFUSED else FaultKind.FAILED


def _is_quota(status: int, text: str, code: str, response: httpx2.Response) -> bool:
    if status == 402 or code.lower() in _QUOTA_CODES:
        return True
    later = "retry-after" in response.headers or _LATER.search(text)
    return not later and _QUOTA_TEXT.search(text) is not None


def is_over_context(text: str) -> bool:
    """Return whether a rejection is about the length of the prompt, so that a shorter one can be accepted."""
    return _OVER_CONTEXT.search(text) is not None or _is_too_large(text)


def _is_too_large(text: str) -> bool:
    """Return whether a text says that this prompt is too large, at any time: a later try would get the same."""
    if _TOO_LARGE.search(text):
        return True
    found = _LIMITED.search(text)
    return found is not None and int(found[2].replace(",", "")) > int(found[1].replace(",", ""))


def _is_model(status: int, text: str) -> bool:
    """Return whether a text says that there is no such model; with status 400, the text can also mean a parameter."""
    if status == 404:
        return _MODEL_TEXT.search(text) is not None
    return status == 400 and _MODEL_ALONE.match(text) is not None


def _said(error: openai.APIStatusError, key: str) -> str:
    text = hidden(excerpt(error_text(error)), key)
    return f": {text}" if text else ""


def _wait(error: openai.APIStatusError) -> str:
    after = error.response.headers.get("retry-after", "")
    return f", next after {excerpt(after, 40)}{' s' if after.isdecimal() else ''}" if after else ""


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError, httpx2.StreamError):
        return None


def _error(document: Any) -> Any:
    """Return the error in a body: under `error` (OpenAI), in a list, or the body itself."""
    if isinstance(document, list) and document:
        document = document[0]
    return document.get("error", document) if isinstance(document, dict) else document


def _message(document: Any) -> str:
    """Return the error text of a body in any of the known formats, including FastAPI's `detail`."""
    found = _error(document)
    if isinstance(found, dict):
        found = next((found[name] for name in ("message", "detail", "error", "msg") if found.get(name)), None)
    if isinstance(found, dict):  # Mistral has {"message": {"detail": [...]}}
        found = found.get("detail") or found.get("message")
    if isinstance(found, list):
        return "; ".join(filter(None, map(_detail, found[:3])))
    return found if isinstance(found, str) else ""


def _detail(one: Any) -> str:
    """Return one of FastAPI's validation errors as text: the place in the body, and the message."""
    if not isinstance(one, dict):
        return one if isinstance(one, str) else ""
    place = one.get("loc")
    where = ".".join(map(str, place)) + ": " if isinstance(place, list) else ""
    message = one.get("msg") or one.get("message")
    return where + message if isinstance(message, str) else ""


def _plain(response: httpx2.Response) -> str:
    try:
        text = response.text.strip()
    except (httpx2.StreamError, LookupError):
        return ""
    return "" if text[:1] in {"<", "{", "["} else text


def _code(document: Any) -> str:
    found = _error(document)
    codes = [found.get(name) for name in ("code", "type")] if isinstance(found, dict) else []
    known = [one for one in codes if isinstance(one, str)]
    return next((one for one in known if one.lower() in _QUOTA_CODES | _MODEL_CODES), known[0] if known else "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__
