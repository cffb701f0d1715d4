"""The host names that the page is served under: a site that points its own name at this machine is refused."""

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress

from starlette.datastructures import URL
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from flightllm.common.listening import is_loopback
from flightllm.common.text import json_text
from flightllm.errors import PermissionDeniedError
from flightllm.web.errors import described, http_status


class AllowedHosts:
    """An application that refuses requests with a foreign `Host` header.

    Allowed are the loopback names, the address that the page listens on, this machine's name, and `names`. If the page
    listens on all addresses of the machine, all IP addresses are allowed: only a name can be pointed elsewhere.
    """

    def __init__(self, app: ASGIApp, listen: str, names: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower().rstrip(".") for name in (listen, socket.gethostname(), *names))
        address = _address(listen)
        self._any_address = address is not None and address.is_unspecified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        host = _host(scope)
        if scope["type"] != "http" or self._is_allowed(host):
            await self._app(scope, receive, send)
            return
        error = PermissionDeniedError(
            f"the server does not answer under the name {host[:200]!r}: add it to hosts in [http] of the server's"
            " configuration"
        )
        refused = Response(json_text({"error": described(error)}), http_status(error), media_type="application/json")
        await refused(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        if is_loopback(host) or host in self._names:
            return True
        return self._any_address and _address(host) is not None


def _host(scope: Scope) -> str:
    """Return the host of a request without its port; empty if the request has no or several `Host` headers."""
    values = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
    if len(values) != 1:
        return ""
    with suppress(ValueError):
        return (URL(f"http://{values[0]}").hostname or "").lower().rstrip(".")
    return ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
