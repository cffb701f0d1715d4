"""Bundle neighbouring requests about one content, so that one HTTP request asks all of their questions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields

from flightllm.engines.shares import lane_of
from flightllm.llm.engine import Completion, Request


class _End:
    """The end of the requests."""


_END = _End()


@dataclass(slots=True, unsafe_hash=True)
class Bundle(Request):
    """Several requests that are sent as one; its own fields are those of the first request."""

    members: tuple[Request, ...] = ()

    @classmethod
    def of(cls, members: tuple[Request, ...]) -> Bundle:
        """Return a bundle of at least one request."""
        return cls(**{one.name: getattr(members[0], one.name) for one in fields(Request)}, members=members)


@dataclass(slots=True, unsafe_hash=True)
class Bundled(Completion):
    """The completions of a bundle."""

    members: tuple[Completion, ...] = ()


class Bundler:
    """Turn requests into bundles of neighbours with equal keys, of at most `most()` requests each. One thread uses it.

    At most `window` requests are in bundles without an answer. The first request after a bundle waits here. A pause of
    the requests ends a bundle, because no further request can come before an answer.
    """

    def __init__(
        self,
        requests: Iterator[Request | None],
        key: Callable[[Request], Hashable],
        most: Callable[[], int],
        window: int,
    ) -> None:
        self._requests = requests
        self._key = key
        self._most = most
        self._window = window
        self._held: list[Request] = []
        self._held_key: Hashable = None
        self._following: tuple[Request, Hashable] | None = None
        self._ended = False
        self.in_flight = 0
        """The requests that were handed over and have no completion yet."""
        self.lane = lane_of(requests)

    def __iter__(self) -> Bundler:
        """Return the iterator itself."""
        return self

    def __next__(self) -> Request | None:
        """Return the next bundle; None while no bundle is ready, or while it must wait for answers."""
        if self.in_flight >= self._window:
            return None
        self._gather()
        if not self._held:
            if self._ended:
                raise StopIteration
            return None
        if self.in_flight and self.in_flight + len(self._held) > self._window:
            return None
        bundle = Bundle.of(tuple(self._held))
        self.in_flight += len(self._held)
        self._held = []
        if self._following is not None:
            request, self._held_key = self._following
            self._held, self._following = [request], None
        return bundle

    def _gather(self) -> None:
        """Pull requests until the bundle is complete, or until the requests pause or end."""
        most = min(self._most(), self._window)
        while not self._ended and self._following is None and len(self._held) < most:
            request = next(self._requests, _END)
            if request is None:
                return
            if isinstance(request, _End):
                self._ended = True
                return
            request.dispatch.waits = True
            key = self._key(request)
            if self._held and key != self._held_key:
                self._following = request, key
                return
            self._held.append(request)
            self._held_key = key
