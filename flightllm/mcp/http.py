"""MCP over streamable HTTP: each request carries the credentials of its caller."""

from collections.abc import Sequence
from typing import Any

import anyio.to_thread
import structlog
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from flightllm.common.listening import shown_host
from flightllm.errors import FlightLLMError, UnauthenticatedError
from flightllm.mcp.callers import Caller, Callers
from flightllm.mcp.server import AgentServer

PATH = "/mcp"
_HOW = "`Authorization: Bearer TOKEN`, or `Authorization: Basic` with user:password"
_NO_HEADER = f"the server asks who you are: send {_HOW}"
_NOT_ACCEPTED = f"the server does not accept these credentials: send {_HOW}"
_log = structlog.get_logger(__name__)


def create_app(agents: AgentServer, callers: Callers, host: str, names: Sequence[str]) -> ASGIApp:
    """Return the application; it answers only under the loopback names, `host` and `names`.

    A web page of another origin, or a name that a site points at this machine, is refused.
    """
    hosts = list(dict.fromkeys(["127.0.0.1", "localhost", "[::1]", shown_host(host), *names]))
    security = TransportSecuritySettings(
        allowed_hosts=[form for name in hosts for form in (name, f"{name}:*")],
        allowed_origins=[
            form
            for name in hosts
            for scheme in ("http", "https")
            for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")
        ],
    )
    app = agents.server.streamable_http_app(streamable_http_path=PATH, transport_security=security, host=host)
    return _Authenticated(app, callers, TransportSecurityMiddleware(security))


class _Authenticated:
    """Checks the caller's credentials before the SDK reads a request, and ties MCP sessions to them."""

    def __init__(self, app: ASGIApp, callers: Callers, security: TransportSecurityMiddleware) -> None:
        self._app = app
        self._callers = callers
        self._security = security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refused = await self._security.validate_request(request) or await self._refused(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        digest = Caller(authorization=request.headers.get("authorization", "")).digest
        # The SDK lets a session's requests in only with the credentials that opened the session.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=digest, scopes=[]))
        await self._app(scope, receive, send)

    async def _refused(self, request: Request) -> Response | None:
        """Return the refusal of a caller that the server does not accept."""
        headers = request.headers.getlist("authorization")
        if len(headers) > 1:
            return _refusal(400, "send one Authorization header")
        caller = Caller(authorization=headers[0] if headers else "")
        try:
            await anyio.to_thread.run_sync(self._callers.check, caller)
        except UnauthenticatedError:
            said = _NOT_ACCEPTED if headers else _NO_HEADER
            return _refusal(401, said, {"www-authenticate": 'Bearer, Basic realm="flightllm", charset="UTF-8"'})
        except FlightLLMError as error:
            return _refusal(503, str(error))
        except Exception:  # noqa: BLE001 - the boundary: a traceback never reaches a caller
            _log.exception("a login failed")
            return _refusal(500, "internal error: the log of `flightllm mcp` has the details")
        return None


def _refusal(status: int, message: str, headers: dict[str, Any] | None = None) -> Response:
    return JSONResponse({"error": message}, status_code=status, headers=headers)
