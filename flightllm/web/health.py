"""The HTTP application: health, readiness, metrics, and the routes mounted on it."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, request_response

from flightllm.web.hosts import AllowedHosts
from flightllm.web.metrics import Metrics

_NO_METRICS = "metrics are not served on this address: set metrics = true in [http] of the configuration\n"


def create_app(
    problem: Callable[[], str | None],
    metrics: Metrics | None,
    routes: Sequence[BaseRoute] = (),
    *,
    listen: str = "127.0.0.1",
    names: Sequence[str] = (),
) -> Starlette:
    """Return the application.

    `problem` returns the reason why the server is not ready for statements, or None. `routes` are further routes, tried
    after the application's own. Metrics are served only under the names of `AllowedHosts`: a page of another site can
    point its own name at this machine.
    """

    def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def readyz(_request: Request) -> Response:
        found = problem()
        return JSONResponse({"status": found or "ready"}, 503 if found else 200)

    def show_metrics(_request: Request) -> Response:
        if metrics is None:
            return PlainTextResponse(_NO_METRICS, 404)
        return Response(metrics.text(), media_type=metrics.content_type)

    own = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", AllowedHosts(request_response(show_metrics), listen, names)),
    ]
    return Starlette(routes=[*own, *routes])
