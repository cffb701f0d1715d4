"""The page's routes: its files, and the endpoints that its scripts call."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from flightllm.common.text import check_well_formed, json_text
from flightllm.errors import BusyError, FlightLLMError
from flightllm.flight.core import Core
from flightllm.functions import FunctionRegistry
from flightllm.session.database import Database
from flightllm.system_tables.labels import LabelStore
from flightllm.web.calls import WebCall
from flightllm.web.connections import TAKES_TIME
from flightllm.web.errors import described, http_status
from flightllm.web.files import FileRun, most_bytes, place_for, receive
from flightllm.web.gate import Gate
from flightllm.web.headers import SafeHeaders
from flightllm.web.hosts import AllowedHosts
from flightllm.web.labels import label_values, put_label, remove_label
from flightllm.web.splitting import split
from flightllm.web.statements import MOST_ROWS, StatementRun
from flightllm.web.streaming import lines
from flightllm.web.views import Views
from flightllm.web.why import why

_T = TypeVar("_T")
_STATIC = Path(__file__).parent / "static"
_SIGN_INS, _WAITING_SIGN_INS = 4, 32
"""The number of passwords that are checked at once, and the number that can wait.

Password hashing takes much memory and time on purpose.
"""
_STATEMENTS = 256
_UPLOADS = 4
"""The number of files that arrive or are read at once: each takes room on the disk."""
_POLL_SECONDS = 0.5
_ROWS = 1_000
"""The rows of a result if the page names no number."""


def create_page(database: Database, core: Core, host: str, names: Sequence[str] = (), *, encrypted: bool) -> Mount:
    """Return the page of a server on `host`; `encrypted` tells whether it uses TLS, `names` are further host names."""
    memory = database.config.limits.memory_bytes
    longest = 2 * database.config.limits.sql_bytes + 65_536  # JSON escapes some characters
    page = _Page(
        core,
        Gate(core, host, encrypted=encrypted, most_bytes=longest),
        Views(database, core),
        database.labels,
        database.functions,
        memory,
    )
    routes = [
        Route("/", page.index),
        Mount("/static", StaticFiles(directory=_STATIC)),
        Route("/api/sign-in", page.sign_in, methods=["POST"]),
        Route("/api/sign-out", page.sign_out, methods=["POST"]),
        Route("/api/me", page.shows(lambda call, _: page.views.me(call))),
        Route("/api/queries", page.shows(lambda call, _: page.views.queries(call))),
        Route("/api/queries/{id}", page.shows(lambda call, path: page.views.query(call, path["id"]))),
        Route("/api/queries/{id}/cancel", page.cancel, methods=["POST"]),
        Route("/api/objects", page.shows(lambda call, _: page.views.objects(call))),
        Route("/api/load", page.shows(lambda call, _: page.views.load(call))),
        Route("/api/statements", page.run, methods=["POST"]),
        Route("/api/why", page.why, methods=["POST"]),
        Route("/api/label", page.label, methods=["POST"]),
        Route("/api/label/remove", page.remove_label, methods=["POST"]),
        Route("/api/files", page.upload, methods=["POST"]),
        Route("/api/split", page.split, methods=["POST"]),
    ]
    handlers: Mapping[Any, Any] = {FlightLLMError: _refused, Exception: _refused}
    inner = Starlette(routes=routes, exception_handlers=handlers)
    return Mount("/", app=SafeHeaders(AllowedHosts(inner, host, names)))


class _Page:
    """The handlers of requests; code that can wait for a disk or a thread runs in separate threads."""

    def __init__(
        self, core: Core, gate: Gate, views: Views, labels: LabelStore, functions: FunctionRegistry, memory_bytes: int
    ) -> None:
        self.views = views
        self._core = core
        self._gate = gate
        self._signing_in = CapacityLimiter(_SIGN_INS)
        self._running = CapacityLimiter(_STATEMENTS)
        self._uploading = CapacityLimiter(_UPLOADS)
        self._memory = memory_bytes
        self._labels = labels
        self._functions = functions

    async def index(self, _request: Request) -> Response:
        """Return the HTML page; it holds no data."""
        return FileResponse(_STATIC / "index.html")

    async def sign_in(self, request: Request) -> Response:
        """Check name and password, or a token, and set the cookie."""
        values = await self._gate.values(request)
        if self._signing_in.statistics().tasks_waiting >= _WAITING_SIGN_INS:
            raise BusyError("too many users are signing in: try again in a moment")
        name, password = values.text("user"), values.text("password")
        principal, handle = await to_thread.run_sync(
            self._gate.sign_in, request, name, password, limiter=self._signing_in
        )
        response = _json({"user": principal.name})
        self._gate.keep(request, response, handle)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Close the session and delete the cookie."""
        await self._gate.values(request)
        call = await to_thread.run_sync(self._gate.enter, request)
        await to_thread.run_sync(call.close_session, self._core)
        self._gate.sign_out(request)
        response = _json({})
        self._gate.keep(request, response, "")
        return response

    async def cancel(self, request: Request) -> Response:
        """Cancel a query of the user; an admin can cancel the queries of all users."""
        await self._gate.values(request)

        def stop() -> None:
            call = self._gate.enter(request)
            self._core.query_of(call.principal, request.path_params["id"]).cancel()

        await to_thread.run_sync(stop)
        return _json({})

    async def run(self, request: Request) -> Response:
        """Run a statement and stream its events as lines of JSON."""
        values = await self._gate.values(request)
        call = await to_thread.run_sync(self._gate.enter, request)
        run = StatementRun(self._core, call, values.text("sql"), values.number("rows", _ROWS, MOST_ROWS))
        return StreamingResponse(lines(run, call, self._running), media_type="application/x-ndjson")

    async def why(self, request: Request) -> Response:
        """Return the prompts and answers behind a row of a statement."""
        values = await self._gate.values(request)
        sql, row = values.text("sql"), values.texts("row")
        call = await to_thread.run_sync(self._gate.enter, request)
        work = partial(why, self._core, call, sql, row)
        return _json(await self._while_there(request, call, work, limiter=self._running))

    async def label(self, request: Request) -> Response:
        """Keep the user's label of an answer; return it, and the one that it replaces."""
        values = await self._gate.values(request)
        given = label_values(values)
        call = await to_thread.run_sync(self._gate.enter, request)
        work = partial(put_label, self._core, self._labels, self._functions, call, given)
        return _json(await self._while_there(request, call, work, limiter=self._running))

    async def remove_label(self, request: Request) -> Response:
        """Remove a label."""
        values = await self._gate.values(request)
        label_id = values.text("label_id")
        call = await to_thread.run_sync(self._gate.enter, request)
        work = partial(remove_label, self._core, call, label_id)
        return _json(await self._while_there(request, call, work, limiter=self._running))

    async def _while_there(
        self, request: Request, call: WebCall, work: Callable[[], _T], *, limiter: CapacityLimiter | None = None
    ) -> _T:
        """Return the result of `work`, which a thread runs; it stops if the browser leaves."""
        request.scope[TAKES_TIME] = True
        task = asyncio.create_task(to_thread.run_sync(work, limiter=limiter))
        try:
            while not (await asyncio.wait({task}, timeout=_POLL_SECONDS))[0]:
                if await request.is_disconnected():
                    call.leave()
        finally:
            call.leave()
            await asyncio.wait({task})
        return task.result()

    async def upload(self, request: Request) -> Response:
        """Take a file of the user, whose name is a parameter of the address, and make temporary tables of it."""
        self._gate.check_origin(request, "application/octet-stream")
        call = await to_thread.run_sync(self._gate.enter, request)
        name, most = request.query_params.get("name", ""), most_bytes(self._core)
        check_well_formed(name, "'name'")
        if self._uploading.borrowed_tokens >= self._uploading.total_tokens:
            raise BusyError("too many files are being uploaded: try again in a moment")
        async with self._uploading:
            with place_for(name) as file:
                request.scope[TAKES_TIME] = True
                await receive(request, file, most)
                made = await self._while_there(request, call, FileRun(self._core, call, file, self._memory))
        return _json({"tables": [asdict(one) for one in made]})

    async def split(self, request: Request) -> Response:
        """Return where the statements of a text are."""
        values = await self._gate.values(request)

        def pieces() -> list[dict[str, Any]]:
            self._gate.enter(request)
            return split(values.text("sql"))

        return _json({"statements": await to_thread.run_sync(pieces)})

    def shows(self, view: Callable[[WebCall, Mapping[str, Any]], dict[str, Any]]) -> Callable[[Request], Response]:
        """Return the endpoint of a view; a thread answers it."""

        def endpoint(request: Request) -> Response:
            return _json(view(self._gate.enter(request), request.path_params))

        return endpoint


def _json(values: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json_text(values), status, media_type="application/json")


def _refused(_request: Request, error: Exception) -> Response:
    return _json({"error": described(error)}, http_status(error))
