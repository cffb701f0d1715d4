"""Access control of the page: cookies of logins, no requests of other sites, and local access without users."""

from starlette.requests import Request
from starlette.responses import Response

from flightllm.common.listening import is_loopback
from flightllm.common.principal import Principal
from flightllm.errors import (
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from flightllm.flight.core import Core
from flightllm.web.calls import WebCall
from flightllm.web.values import Values

_OPEN = (
    "this server has no users, so only its own machine can open the page: add a user by"
    " `flightllm user add NAME --role admin`, or open http://127.0.0.1 on that machine"
)


class Gate:
    """The check of every request. It reads the users' file, so the event loop must call only `values`.

    `host` is the address that the page listens on. A cookie is a handle that this process keeps, and hands over to the
    process that replaces it without a stop. It is invalid after signing out, after a stop and on other servers.
    """

    def __init__(self, core: Core, host: str, *, encrypted: bool, most_bytes: int) -> None:
        self._login = core.login
        self._signed_in = core.sign_ins
        self._activity = core.activity
        self._local = is_loopback(host)
        self._encrypted = encrypted
        self._most_bytes = most_bytes

    def check_place(self, request: Request) -> None:
        """Check that a server without users is called by its own machine and its own page.

        A foreign site can point its name at this machine (DNS rebinding); the browser then treats this server as the
        site's server.

        Raises:
            PermissionDeniedError: the request comes from elsewhere.
        """
        if self._login.is_open and not (self._local and is_loopback(request.url.hostname or "")):
            raise PermissionDeniedError(_OPEN)

    def enter(self, request: Request) -> WebCall:
        """Return the call of a user who signed in.

        Raises:
            UnauthenticatedError: no user signed in, or the login has ended.
            PermissionDeniedError: see `check_place`.
        """
        self.check_place(request)
        try:
            _, token = self._signed_in.get(_handle(request))
        except NotFoundError as error:
            raise UnauthenticatedError("not signed in: sign in first") from error
        return WebCall(self._login.by_token(token), token, _peer(request))

    def sign_in(self, request: Request, name: str, password: str) -> tuple[Principal, str]:
        """Return the user with this name and password (or API token), and the handle for the cookie. Slow.

        Raises:
            UnauthenticatedError: no user has this name and password.
            PermissionDeniedError: see `check_place`.
        """
        self.check_place(request)
        with self._activity.call():
            try:
                principal, token = self._login.by_password(name, password)
            except UnauthenticatedError as error:
                raise UnauthenticatedError(
                    str(error).partition(";")[0]
                ) from error  # the rest is for programmers of clients
            return principal, self._signed_in.add((principal.name, token)).decode()

    def sign_out(self, request: Request) -> None:
        """Make a request's cookie invalid."""
        with self._activity.call():
            self._signed_in.remove(_handle(request))

    def keep(self, request: Request, response: Response, handle: str) -> None:
        """Set the cookie of a login in the browser; an empty handle deletes it."""
        name = _cookie(request)
        if handle:
            response.set_cookie(name, handle, path="/", secure=self._encrypted, httponly=True, samesite="strict")
        else:
            response.delete_cookie(name, path="/", secure=self._encrypted, httponly=True, samesite="strict")

    async def values(self, request: Request) -> Values:
        """Return the JSON object of a POST from the page itself; a form of another site cannot send it.

        Raises:
            PermissionDeniedError: the request comes from elsewhere.
            InvalidInputError: the body is not a JSON object.
            LimitExceededError: the body is too long.
        """
        self.check_origin(request, "application/json")
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._most_bytes:
                raise LimitExceededError(f"the request is longer than {self._most_bytes:,} bytes ([limits] sql_bytes)")
        return Values(bytes(body))

    @staticmethod
    def check_origin(request: Request, kind: str) -> None:
        """Check that a POST comes from the page itself, with a body of a kind that no form of another site can send.

        Raises:
            PermissionDeniedError: the request comes from elsewhere.
            InvalidInputError: the body is of another kind.
        """
        origin = request.headers.get("origin", "").partition("://")[2]
        if not origin or origin != request.headers.get("host"):
            raise PermissionDeniedError(
                "the request does not come from this server's own page: open the page, and use it there"
            )
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
            raise InvalidInputError(f"send the values as {kind}")


def _cookie(request: Request) -> str:
    """Return the cookie's name, with the port: browsers send cookies to all ports of a machine, so to all servers."""
    server = request.scope.get("server")
    return f"flightllm_page_{server[1] if server else 0}"


def _handle(request: Request) -> bytes:
    return request.cookies.get(_cookie(request), "").encode("utf-8", "replace")


def _peer(request: Request) -> str:
    return f"http:{request.client.host}:{request.client.port}" if request.client else "http"
