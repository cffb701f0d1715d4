"""The HTTP application: health, readiness, metrics, and the routes mounted on it."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from flightllm.web.metrics import Metrics

_NO_METRICS = "metrics are not served on this address: set metrics = true in [http] of the configuration\n"


def create_app(
    problem: Callable[[], str | None], metrics: Metrics | None, routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the application.

    `problem` returns the reason why the server is not ready for statements, or None. `routes` are further routes, tried
    after the application's own.
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

    own = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", show_metrics)]
    return Starlette(routes=[*own, *routes])
