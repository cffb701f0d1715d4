"""Note statements while they are planned and run, and refuse those in quarantine."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from flightllm.operators.relational import Batches
from flightllm.recovery.journal import Journal, Phase
from flightllm.recovery.quarantine import Quarantine, digest_of


class Watch:
    """What a database's sessions tell of their statements; without a journal nothing is noted or refused."""

    def __init__(self, journal: Journal | None = None, quarantine: Quarantine | None = None) -> None:
        self._journal = journal
        self.quarantine = quarantine or Quarantine()

    @contextmanager
    def planning(self, sql: str) -> Iterator[None]:
        """Note a statement while it is planned.

        Raises:
            QuarantinedError: it is refused for now.
        """
        if self._journal is None:
            yield
            return
        digest = digest_of(sql)
        self.quarantine.check(digest)
        slot = self._journal.note(digest, sql, Phase.PLANNING)
        try:
            yield
        finally:
            self._journal.end(slot)

    @contextmanager
    def changing(self, sql: str, query_id: str) -> Iterator[None]:
        """Note a statement that is planned and run in one.

        Raises:
            QuarantinedError: it is refused for now.
        """
        if self._journal is None:
            yield
            return
        digest, harmless = digest_of(sql), None
        self.quarantine.check(digest)
        slot = self._journal.note(digest, sql, Phase.STARTING, query_id)
        try:
            yield
            harmless = digest
        finally:
            self._journal.end(slot, harmless=harmless)

    def running(self, batches: Batches, sql: str, query_id: str) -> Batches:
        """Yield the batches of a planned statement, noted from the first pull until the end."""
        return batches if self._journal is None else _noted(self._journal, batches, sql, query_id)


def _noted(journal: Journal, batches: Batches, sql: str, query_id: str) -> Batches:
    digest, harmless = digest_of(sql), None
    slot = journal.note(digest, sql, Phase.STARTING, query_id)
    try:
        with closing(batches):
            for batch in batches:
                journal.move(slot, Phase.RUNNING)
                yield batch
        harmless = digest
    finally:
        journal.end(slot, harmless=harmless)
