"""One engine made of several: a policy chooses a replica for each prompt, and another replica if that one dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flightllm.engines.extras import extras_of
from flightllm.errors import EngineError
from flightllm.llm.engine import Completion, PrefixCache, Request
from flightllm.router.call import RoutedCall
from flightllm.router.replicas import Replicas


class RoutedEngine(Replicas):
    """Replicas of one model behind the protocol of one engine. Thread-safe.

    The unanswered prompts of a replica that dies are sent to other replicas. Only when no replica is left, a query
    fails with `EngineUnavailableError`, or waits, as for any engine that is down.
    """

    reconnects = True
    """Dead replicas are reopened automatically."""

    @property
    def name(self) -> str:
        """Return the kind and model, the number of replicas and the policy."""
        return f"{self._name}, {len(self._replicas)} replicas, {self.policy}"

    @property
    def revision(self) -> str:
        """Return the revision, which all replicas share."""
        return self._ask(lambda engine: engine.revision) if self._revision is None else self._revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the prefix cache of one replica: prompts that share a prefix are routed to one replica."""
        return self._ask(lambda engine: engine.prefix_cache)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` with a replica's tokenizer."""
        return self._ask(lambda engine: engine.count_tokens(text))

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer each request on one of the replicas; see `Engine.generate`."""
        return RoutedCall(self, requests, cancelled).stream()

    def check(self) -> tuple[str, str]:
        """Check the replicas that offer a check; return the text of the first good one, and the others' errors.

        Raises:
            EngineError: no replica can answer; the error is that of the first replica.
        """
        found, failures = "", []
        for replica in list(self._replicas.values()):
            inner = replica.engine.inner
            try:
                said, warning = ("", "") if inner is None else extras_of(inner).check()
            except EngineError as error:
                failures.append(error)
            else:
                found = found or said or replica.name
                failures += [EngineError(warning)] if warning else []
        if not found and failures:
            raise failures[0]
        return found, "; ".join(map(str, failures))
