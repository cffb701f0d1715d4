"""OpenTelemetry traces: the spans of `flightllm.observe.spans`, sent by OTLP over HTTP."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from flightllm.common.redaction import keep_secret
from flightllm.config import TracingConfig
from flightllm.errors import MissingExtraError
from flightllm.observe.spans import NO_SPANS, Spans, Value

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer


_SEND_SECONDS = 5.0


def create_spans(config: TracingConfig) -> Spans:
    """Return the object that starts spans; without an endpoint, spans are not recorded.

    Raises:
        MissingExtraError: the extra `otel` is not installed.
    """
    if config.endpoint is None:
        return NO_SPANS
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from requests import Response, Session
        from requests.exceptions import TooManyRedirects
    except ImportError as exc:
        raise MissingExtraError("[tracing]", "otel") from exc

    class Straight(Session):
        """A session that follows no redirect, because requests would take the headers along to another host."""

        def get_redirect_target(self, resp: Response) -> str | None:
            if super().get_redirect_target(resp) is not None:
                resp.close()  # else its connection is open until somebody collects the response
                raise TooManyRedirects("the address redirects: write the final address into [tracing] endpoint")
            return None

    _keep_secrets(config.endpoint)
    provider = TracerProvider(resource=Resource.create({"service.name": config.service_name}))
    exporter = OTLPSpanExporter(endpoint=config.endpoint, timeout=_SEND_SECONDS, session=Straight())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return TracedSpans(provider)


def _keep_secrets(endpoint: str) -> None:
    """Note the secrets of the exporter: those in its address, and the headers of the environment."""
    if "@" in endpoint or "?" in endpoint:
        keep_secret(endpoint)
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        for pair in os.environ.get(name, "").split(","):
            keep_secret(unquote(pair.partition("=")[2].strip()))


class TracedSpans:
    """Spans of an OpenTelemetry provider; closing them closes the provider."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("flightllm")

    def statement(self, since: int | None = None, **attributes: Value) -> "TracedSpan":
        """Start a statement's span, inside the `attached` trace."""
        return TracedSpan(
            self._tracer, self._tracer.start_span("statement", attributes=_named(attributes), start_time=since)
        )

    @contextmanager
    def attached(self, traceparent: str | None) -> Iterator[None]:
        """Make spans that start inside a part of the caller's trace; an invalid header starts a new trace."""
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if traceparent is None:
            yield
            return
        token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        """Send the spans that are not sent yet. Idempotent."""
        self._provider.shutdown()


class TracedSpan:
    """An OpenTelemetry span."""

    def __init__(self, tracer: "Tracer", span: "OtelSpan") -> None:
        self._tracer = tracer
        self._span = span
        self._lock = Lock()
        self._ended = False

    def child(self, name: str, **attributes: Value) -> "TracedSpan":
        """Start a piece of work that is part of this one."""
        from opentelemetry.trace import set_span_in_context

        within = set_span_in_context(self._span)
        return TracedSpan(self._tracer, self._tracer.start_span(name, within, attributes=_named(attributes)))

    def end(self, error: str | None = None, **attributes: Value) -> None:
        """End the span, with its results as attributes. Only the first call has an effect."""
        from opentelemetry.trace import StatusCode

        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._span.set_attributes(_named(attributes))
        if error is not None:
            self._span.set_status(StatusCode.ERROR, error)
        self._span.end()

    def __enter__(self) -> Self:
        """Return the span."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the span."""
        self.end(None if kind is None else kind.__name__)


def _named(attributes: dict[str, Value]) -> dict[str, Value]:
    return {f"flightllm.{name}": value for name, value in attributes.items()}
