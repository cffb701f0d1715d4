"""Records statements in the journal while they are planned and run, and refuses blocked ones."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from flightllm.datafusion.run import Batches
from flightllm.observe.statement_texts import shown_statement
from flightllm.recovery.journal import TEXT_BYTES, Journal, Phase
from flightllm.recovery.quarantine import Quarantine, digest_of, user_key


class Watch:
    """Records the statements of a database's sessions. Without a journal, it records nothing and refuses nothing.

    The parameter `user` of the methods is the statement's user; it is empty for admins.
    """

    def __init__(self, journal: Journal | None = None, quarantine: Quarantine | None = None) -> None:
        self._journal = journal
        self.quarantine = quarantine or Quarantine()

    def planning(self, sql: str, user: str = "") -> AbstractContextManager[object]:
        """Return a context that records a statement while it is planned.

        Raises:
            QuarantinedError: the statement is blocked.
            BusyError: all statements of the user are blocked.
        """
        return self._noted(sql, Phase.PLANNING, "", user, whole=False)

    def changing(self, sql: str, query_id: str, user: str = "") -> AbstractContextManager[object]:
        """Return a context that records a statement while it is planned and run.

        Raises:
            QuarantinedError: the statement is blocked.
            BusyError: all statements of the user are blocked.
        """
        return self._noted(sql, Phase.STARTING, query_id, user)

    def running(self, batches: Batches, sql: str, query_id: str, user: str = "") -> Batches:
        """Yield a planned statement's batches; record the statement from the first batch to the last."""
        return batches if self._journal is None else self._run(self._journal, batches, sql, query_id, user)

    def _run(self, journal: Journal, batches: Batches, sql: str, query_id: str, user: str) -> Batches:
        with self._noted(sql, Phase.STARTING, query_id, user) as slot, closing(batches):
            for batch in batches:
                journal.move(slot, Phase.RUNNING)
                yield batch

    @contextmanager
    def _noted(self, sql: str, phase: Phase, query_id: str, user: str, *, whole: bool = True) -> Iterator[int | None]:
        """Record a statement in the journal while the context is open.

        If `whole`, an end without an error proves that the statement is harmless.
        """
        if self._journal is None:
            yield None
            return
        digest, harmless, key = digest_of(sql), None, user_key(user)
        self.quarantine.check(digest, key)
        slot = self._journal.note(digest, shown_statement(sql, TEXT_BYTES), phase, query_id, key)
        try:
            yield slot
            harmless = digest if whole else None
        finally:
            self._journal.end(slot, harmless=harmless)
