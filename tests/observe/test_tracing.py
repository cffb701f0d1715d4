"""Traces: one span per statement, stage and AI operator, under the caller's own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from requests import Response

from flightllm.client import Client
from flightllm.common.redaction import redacted
from flightllm.config import Config, EngineConfig, ServerConfig, TracingConfig
from flightllm.errors import ConfigError, FlightLLMError
from flightllm.flight.server import FlightSqlServer
from flightllm.observe.spans import NO_SPANS
from flightllm.observe.tracing import TracedSpans, create_spans
from flightllm.session.database import Database
from tests.servers import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
QUERY = "SELECT n, ai_gen('Of {n}?', n) AS a FROM t WHERE n <= 20"


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[tuple[FlightSqlServer, InMemorySpanExporter]]:
    """Serve, and keep the spans in memory."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with serving(tmp_path) as server:
        database: Any = server._core.database
        database.queries._spans = TracedSpans(provider)
        yield server, exporter


def _figures(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("flightllm."): value for name, value in (span.attributes or {}).items()}


def _ask(server: FlightSqlServer, sql: str) -> None:
    with Client(server.uri, HEADERS) as client:
        list(client.query(sql)[1])
    while server._core.slots.running:  # the query's thread ends its span
        threading.Event().wait(0.01)


def test_spans_of_a_query(traced: tuple[FlightSqlServer, InMemorySpanExporter]) -> None:
    """A query is part of the caller's trace, its stages and operators are parts of it, each with its counts."""
    server, exporter = traced
    _ask(server, QUERY)
    spans = exporter.get_finished_spans()
    (statement,) = [span for span in spans if span.name == "statement"]
    assert statement.context is not None
    assert statement.parent is not None
    assert (f"{statement.context.trace_id:032x}", f"{statement.parent.span_id:016x}") == (TRACE, PARENT)
    figures = _figures(statement)
    assert (figures["kind"], figures["status"], figures["rows"], figures["calls"]) == ("query", "done", 20, 20)
    (operator,) = [span for span in spans if span.name == "ai_operator"]
    assert (_figures(operator)["functions"], _figures(operator)["calls"]) == ("ai_gen", 20)
    stages = [span for span in spans if span.name == "stage"]
    assert sorted(_figures(span)["rows"] for span in stages) == [20, 20]
    assert {span.parent.span_id for span in [operator, *stages] if span.parent} == {statement.context.span_id}
    texts = " ".join(str(span.attributes) for span in spans)
    assert "Of " not in texts


def test_spans_of_failures_and_updates(traced: tuple[FlightSqlServer, InMemorySpanExporter]) -> None:
    """A statement that fails says so, without the error's text, which may hold what is in rows."""
    server, exporter = traced
    _ask(server, "CREATE TABLE u AS SELECT 1 AS a")
    with pytest.raises(FlightLLMError):
        _ask(server, "SELECT CAST('secret' || n AS INT) FROM t")
    update, query = (span for span in exporter.get_finished_spans() if span.name == "statement")
    assert (_figures(update)["kind"], update.status.is_ok) == ("create_table_as", True)
    assert (query.status.is_ok, query.status.description) == (False, "failed")


def test_a_header_that_is_none(traced: tuple[FlightSqlServer, InMemorySpanExporter]) -> None:
    """What is no traceparent starts a trace of its own."""
    server, exporter = traced
    with Client(server.uri, {"traceparent": "nonsense"}) as client:
        list(client.query("SELECT 1")[1])
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


class _Receiver(BaseHTTPRequestHandler):
    """Takes in what an OTLP exporter sends."""

    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        """Keep the spans."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def test_sent_by_otlp(tmp_path: Path) -> None:
    """What the configuration names receives the spans, at the latest when the database is closed."""
    received: list[ExportTraceServiceRequest] = []
    receiver = HTTPServer(("127.0.0.1", 0), type("Receiver", (_Receiver,), {"received": received}))
    thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
    thread.start()
    tracing = TracingConfig(f"http://127.0.0.1:{receiver.server_port}/v1/traces", "tests")
    database = Database.open(Config(engine=EngineConfig("fake"), tracing=tracing, data_folder=tmp_path))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    _ask(server, "SELECT 1")
    server.drain(0)
    database.close()
    receiver.shutdown()
    thread.join(30)
    receiver.server_close()
    spans = [
        (resource.resource.attributes, span.name)
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [name for _, name in spans] == ["statement"]
    assert "tests" in str(spans[0][0])


def test_off_unless_configured() -> None:
    """Without an endpoint there is nothing to make spans with; an address that is none is refused."""
    assert create_spans(TracingConfig()) is NO_SPANS
    with pytest.raises(ConfigError, match=r"\[tracing\] endpoint: expected an address"):
        TracingConfig("localhost:4318")


def test_headers_do_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A collector that redirects to another host does not get the exporter's key there, and the log says it.

    The connection ends with the error: one that is left to the collector of garbage warns during any later test.
    """
    got: list[str] = []
    ended: list[int] = []
    close = Response.close

    def noted(response: Response) -> None:
        ended.append(response.status_code)
        close(response)

    monkeypatch.setattr(Response, "close", noted)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.headers["x-api-key"])
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.2:{server.server_port}/v1/traces")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=otlp%2Fcanary4711")
    with HTTPServer(("0.0.0.0", 0), Handler) as server:  # noqa: S104 - two loopback addresses, one server
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        spans = create_spans(TracingConfig(endpoint=f"http://127.0.0.1:{server.server_port}/v1/traces"))
        spans.statement().end()
        spans.close()
        server.shutdown()
    assert got == ["otlp/canary4711"]
    assert ended == [307]
    assert "the address redirects" in caplog.text
    assert redacted("key otlp/canary4711") == "key ***"
