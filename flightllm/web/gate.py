"""Who may come in: the cookie of a login, no requests of other sites, and this machine alone where nobody is asked."""

from starlette.requests import Request
from starlette.responses import Response

from flightllm.access.login import Login
from flightllm.common.principal import Principal
from flightllm.config.checks import is_loopback
from flightllm.errors import (
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from flightllm.flight.registry import Registry
from flightllm.web.calls import WebCall
from flightllm.web.values import Values

_MOST_SIGN_INS = 10_000
_OPEN = (
    "this server has no users, so its page is for its own machine alone: add one by"
    " `flightllm user add NAME --role admin`, or open the page there, at http://127.0.0.1"
)


class Gate:
    """Lets requests in. It reads the file of users, so the event loop calls `values` alone.

    `host` is what the page listens on. A cookie is a handle that this process keeps: worth nothing once it is signed
    out, in another process, or anywhere but here.
    """

    def __init__(self, login: Login, host: str, *, encrypted: bool, most_bytes: int) -> None:
        self._login = login
        self._signed_in: Registry[tuple[str, str]] = Registry(
            "sign-in", _MOST_SIGN_INS, float("inf"), owner=lambda sign_in: sign_in[0]
        )
        """User and login token of each cookie."""
        self._local = is_loopback(host)
        self._encrypted = encrypted
        self._most_bytes = most_bytes

    def check_place(self, request: Request) -> None:
        """Check that a server which asks nobody is asked by its own machine, and by its own page.

        A site may point its own name at this machine; the browser then takes it for the site's server.

        Raises:
            PermissionDeniedError: it is not.
        """
        if self._login.is_open and not (self._local and is_loopback(request.url.hostname or "")):
            raise PermissionDeniedError(_OPEN)

    def enter(self, request: Request) -> WebCall:
        """Return the call of a user who signed in.

        Raises:
            UnauthenticatedError: nobody did, or not any more.
            PermissionDeniedError: see `check_place`.
        """
        self.check_place(request)
        try:
            _, token = self._signed_in.get(_handle(request))
        except NotFoundError as error:
            raise UnauthenticatedError("sign in first") from error
        return WebCall(self._login.by_token(token), token, _peer(request))

    def sign_in(self, request: Request, name: str, password: str) -> tuple[Principal, str]:
        """Return who has name and password, or an API token in its place, and the handle for the cookie. Slow.

        Raises:
            UnauthenticatedError: nobody has.
            PermissionDeniedError: see `check_place`.
        """
        self.check_place(request)
        try:
            principal, token = self._login.by_password(name, password)
        except UnauthenticatedError as error:
            raise UnauthenticatedError(str(error).partition(";")[0]) from error  # the rest is for clients' programmers
        return principal, self._signed_in.add((principal.name, token)).decode()

    def sign_out(self, request: Request) -> None:
        """Let a request's cookie be worth nothing any more."""
        self._signed_in.remove(_handle(request))

    def keep(self, request: Request, response: Response, handle: str) -> None:
        """Give the browser the cookie of a login; an empty handle takes it away."""
        name = _cookie(request)
        if handle:
            response.set_cookie(name, handle, path="/", secure=self._encrypted, httponly=True, samesite="strict")
        else:
            response.delete_cookie(name, path="/", secure=self._encrypted, httponly=True, samesite="strict")

    async def values(self, request: Request) -> Values:
        """Return the JSON object that a POST sent from the page itself, which no form of another site can send.

        Raises:
            PermissionDeniedError: it comes from elsewhere.
            InvalidInputError: it is no JSON object.
            LimitExceededError: it is too long.
        """
        origin = request.headers.get("origin", "").partition("://")[2]
        if not origin or origin != request.headers.get("host"):
            raise PermissionDeniedError("the request does not come from this server's own page")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise InvalidInputError("send the values as application/json")
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._most_bytes:
                raise LimitExceededError(f"the request is longer than {self._most_bytes:,} bytes ([limits] sql_bytes)")
        return Values(bytes(body))


def _cookie(request: Request) -> str:
    """Return the cookie's name: browsers send cookies to every port of a machine, which may have several servers."""
    server = request.scope.get("server")
    return f"flightllm_page_{server[1] if server else 0}"


def _handle(request: Request) -> bytes:
    return request.cookies.get(_cookie(request), "").encode("utf-8", "replace")


def _peer(request: Request) -> str:
    return f"http:{request.client.host}:{request.client.port}" if request.client else "http"
