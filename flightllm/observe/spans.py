"""The interface for measuring a statement's work in traces; without tracing, it does nothing."""

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, Self

Value = str | int | float | bool


class Span(Protocol):
    """A piece of work that started; `end`, or leaving its context, ends it. Safe to use from several threads."""

    def child(self, name: str, **attributes: Value) -> "Span":
        """Start a piece of work that is part of this one."""

    def end(self, error: str | None = None, **attributes: Value) -> None:
        """End the span, with its results as attributes. Only the first call has an effect."""

    def __enter__(self) -> Self:
        """Return the span."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the span."""


class Spans(Protocol):
    """Starts the spans of statements."""

    def statement(self, since: int | None = None, **attributes: Value) -> Span:
        """Start a statement's span, inside the `attached` trace; `since` is its start in Unix nanoseconds."""

    def attached(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Make spans that start inside a part of the caller's trace, given by its `traceparent` header."""

    def close(self) -> None:
        """Send the spans that are not sent yet. Idempotent."""


class NoSpan:
    """A span that is not recorded."""

    def child(self, name: str, **attributes: Value) -> "NoSpan":
        """Return the same object."""
        del name, attributes
        return self

    def end(self, error: str | None = None, **attributes: Value) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        """Return the same object."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class NoSpans:
    """Spans without tracing, which are not recorded."""

    def statement(self, since: int | None = None, **attributes: Value) -> NoSpan:
        """Return a span that is not recorded."""
        del since, attributes
        return NO_SPAN

    def attached(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Do nothing."""
        del traceparent
        return nullcontext()

    def close(self) -> None:
        """Do nothing."""


NO_SPANS = NoSpans()
