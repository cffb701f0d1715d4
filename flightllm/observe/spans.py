"""What a statement's work is measured by where traces are wanted; without them, nothing at all."""

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, Self

Value = str | int | float | bool


class Span(Protocol):
    """A piece of work that began; ended by `end`, or by leaving it as a context. Safe to use from several threads."""

    def child(self, name: str, **attributes: Value) -> "Span":
        """Begin a piece of work that is part of this one."""

    def end(self, error: str | None = None, **attributes: Value) -> None:
        """End it; what it came to are its attributes. The first call counts."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""


class Spans(Protocol):
    """Where spans begin."""

    def statement(self, since: int | None = None, **attributes: Value) -> Span:
        """Begin the span of a statement, under what `attached` said; `since` is when it began, in Unix nanoseconds."""

    def attached(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Take what begins inside for a part of the caller's trace, by its `traceparent` header."""

    def close(self) -> None:
        """Send what is not sent yet. Idempotent."""


class NoSpan:
    """A span that nobody looks at."""

    def child(self, name: str, **attributes: Value) -> "NoSpan":
        """Return itself."""
        del name, attributes
        return self

    def end(self, error: str | None = None, **attributes: Value) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class NoSpans:
    """No traces."""

    def statement(self, since: int | None = None, **attributes: Value) -> NoSpan:
        """Return a span that nobody looks at."""
        del since, attributes
        return NO_SPAN

    def attached(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Do nothing."""
        del traceparent
        return nullcontext()

    def close(self) -> None:
        """Do nothing."""


NO_SPANS = NoSpans()
