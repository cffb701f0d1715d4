"""The user and the settings of a call, read once from its headers."""

from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from flightllm.access.login import LOGIN_PREFIX, Login
from flightllm.common.basic_credentials import read_basic
from flightllm.common.principal import Principal
from flightllm.flight.activity import Activity
from flightllm.flight.errors import statuses
from flightllm.flight.messages import parse_flight

CALL = "flightllm"
"""The key of `CallerContext` among the server's middleware."""
COOKIE = "flightllm_session"
SETTING_PREFIX = "x-flightllm-"
_OLD_TOKEN = "auth-token-bin"  # noqa: S105 - the name of a header
"""The header of clients that got their token as a handshake's payload."""


class Handshake(flight.ServerAuthHandler):
    """Accept every handshake: the credentials travel in headers, and `CallFactory` checks them.

    Old clients send the credentials as the handshake's payload, a `BasicAuth`, and get a token as payload. Their calls
    then carry the token in the header `auth-token-bin`.
    """

    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Exchange a `BasicAuth` for a token; do nothing if the client sends no payload."""
        with statuses():
            try:
                payload = incoming.read()
            except (OSError, flight.FlightError, pa.ArrowException):  # the client sends nothing
                return
            if payload:
                given = parse_flight("BasicAuth", payload)
                outgoing.write(self._login.by_password(given.username, given.password)[1].encode())

    def is_valid(self, _token: bytes) -> bytes:
        """Return an empty peer name: the user comes from the headers."""
        return b""


class CallerContext(flight.ServerMiddleware):
    """One call: its user, the token that names its session (if any), its cookie and its settings.

    `principal` is None on a port where the connection's certificate names the user.
    """

    def __init__(
        self,
        principal: Principal | None,
        token: str,
        headers: Mapping[str, str],
        *,
        new: bool = False,
        activity: Activity | None = None,
    ) -> None:
        super().__init__()
        self.principal = principal
        self.token = token
        self.cookie = _cookie(headers.get("cookie", ""))
        self.traceparent = headers.get("traceparent")
        self.settings = {
            name.removeprefix(SETTING_PREFIX): value
            for name, value in headers.items()
            if name.startswith(SETTING_PREFIX)
        }
        self._new = new
        self._activity = activity
        if activity is not None:
            activity.begin()

    @property
    def names_session(self) -> bool:
        """Return whether the token was made for one login, and so identifies a session."""
        return self.token.startswith(LOGIN_PREFIX)

    def sending_headers(self) -> dict[str, str]:
        """Return the header with the token that answers Basic credentials."""
        return {"authorization": f"Bearer {self.token}"} if self._new else {}

    def call_completed(self, _exception: object) -> None:
        """Count the call's end."""
        if self._activity is not None:
            self._activity.end()


class _Call(Protocol):
    """A call that has middleware: pyarrow's `ServerCallContext`, or a call over another protocol."""

    def get_middleware(self, key: str) -> Any:
        """Return the middleware under `key`."""


def call_of(context: _Call) -> CallerContext:
    """Return the user, session and settings that the headers of a call carry."""
    call: CallerContext = context.get_middleware(CALL)
    return call


class CallFactory(flight.ServerMiddlewareFactory):
    """Authenticate each call by `login`.

    A call carries Basic credentials, which are answered by a new token, or a bearer token. With `certificates` the
    connection's certificate names the user, and headers do not. `activity` counts the calls.
    """

    def __init__(self, login: Login, *, certificates: bool = False, activity: Activity | None = None) -> None:
        super().__init__()
        self._login = login
        self._certificates = certificates
        self._activity = activity

    def start_call(self, info: flight.CallInfo | None, headers: Mapping[str, Sequence[str | bytes]]) -> CallerContext:
        """Return the call's middleware; a Flight status refuses the call."""
        with statuses():
            texts = {name.lower(): _text(values[0]) for name, values in headers.items() if values}
            if self._certificates:
                return self._call(None, "", texts)
            if token := texts.get(_OLD_TOKEN):
                return self._call(self._login.by_token(token), token, texts)
            handshakes = info is not None and info.method == flight.FlightMethod.HANDSHAKE
            if handshakes and "authorization" not in texts:
                return self._call(None, "", texts)  # `Handshake` reads the credentials
            scheme, _, value = texts.get("authorization", "").partition(" ")
            if scheme.lower() == "basic":
                principal, token = self._login.by_password(*read_basic(value))
                return self._call(principal, token, texts, new=True)
            if scheme.lower() == "bearer" and value:
                return self._call(self._login.by_token(value), value, texts)
            return self._call(self._login.anonymous(), "", texts)

    def _call(
        self, principal: Principal | None, token: str, headers: Mapping[str, str], *, new: bool = False
    ) -> CallerContext:
        return CallerContext(principal, token, headers, new=new, activity=self._activity)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _cookie(header: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None
