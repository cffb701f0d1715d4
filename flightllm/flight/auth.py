"""Who calls, with which settings: read once from the headers of each call."""

import base64
import binascii
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from pyarrow import flight

from flightllm.errors import UnauthenticatedError
from flightllm.flight.errors import statuses

COOKIE = "flightllm_session"
SETTING_PREFIX = "x-flightllm-"
_ISSUED_TOKENS = 65_536


@dataclass(frozen=True, slots=True)
class Token:
    """A call's bearer token, empty if it sent none: `own` if made for one login, `new` if made in this call."""

    value: str
    own: bool = False
    new: bool = False


class Handshake(flight.ServerAuthHandler):
    """Accept every handshake: the credentials travel in headers, and `CallFactory` checks them."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        """Exchange nothing."""

    def is_valid(self, _token: bytes) -> bytes:
        """Name no peer: identity comes from the headers."""
        return b""


class Call(flight.ServerMiddleware):
    """One call: the bearer token and cookie it came with, and its `x-flightllm-…` settings."""

    def __init__(
        self, token: Token, cookie: str | None, settings: Mapping[str, str], traceparent: str | None = None
    ) -> None:
        super().__init__()
        self.traceparent = traceparent
        self.token = token
        self.cookie = cookie
        self.settings = settings

    def sending_headers(self) -> dict[str, str]:
        """Hand out a token for Basic credentials."""
        return {"authorization": f"Bearer {self.token.value}"} if self.token.new else {}


class CallFactory(flight.ServerMiddlewareFactory):
    """Authenticate each call.

    With a configured `secret`, a client sends it as bearer token, or as the password of Basic credentials with any user
    name. Without one everybody may call. Basic credentials are answered by a token of their own, which names a session.
    """

    def __init__(self, secret: str | None) -> None:
        super().__init__()
        self._secret = secret
        self._issued: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def start_call(self, _info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]) -> Call:
        """Return the call's middleware; a Flight status refuses the call."""
        with statuses():
            texts = {name.lower(): _text(values[0]) for name, values in headers.items() if values}
            token = self._token(texts.get("authorization", ""))
            settings = {
                name.removeprefix(SETTING_PREFIX): value
                for name, value in texts.items()
                if name.startswith(SETTING_PREFIX)
            }
            return Call(token, _cookie(texts.get("cookie", "")), settings, texts.get("traceparent"))

    def _token(self, authorization: str) -> Token:
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":
            self._check_password(_password(value))
            return Token(self._issue(), own=True, new=True)
        if scheme.lower() == "bearer" and value:
            own = self._was_issued(value)
            if not own and self._secret is not None and not _same(value, self._secret):
                raise UnauthenticatedError("the bearer token is not valid here; log in again")
            return Token(value, own=own)
        if self._secret is not None:
            raise UnauthenticatedError(
                "this server asks for a token: send it as bearer token (`authorization: Bearer …`) or as the password"
            )
        return Token("")

    def _check_password(self, password: str) -> None:
        if self._secret is not None and not _same(password, self._secret):
            raise UnauthenticatedError("wrong password: give the server's token as password, with any user name")

    def _was_issued(self, token: str) -> bool:
        with self._lock:
            if token not in self._issued:
                return False
            self._issued.move_to_end(token)
            return True

    def _issue(self) -> str:
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._issued[token] = None
            while len(self._issued) > _ISSUED_TOKENS:
                self._issued.popitem(last=False)
        return token


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _password(value: str) -> str:
    """Return the password of Basic credentials; Go clients leave the base64 padding away."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise UnauthenticatedError("the Basic credentials are not base64 of user:password") from exc
    return plain.partition(":")[2]


def _cookie(header: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None
