"""The plan that `describe` made, for the first execution if nothing has changed since."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from flightllm.access.rights import Rights
from flightllm.catalog.entries import Entry, check_files
from flightllm.catalog.reading import named_in
from flightllm.common.names import TableName
from flightllm.config.session_settings import Settings
from flightllm.errors import FlightLLMError
from flightllm.execution.context import Services
from flightllm.execution.planning import is_lasting
from flightllm.execution.query import Query
from flightllm.sql.changing import CLOCK, CLOCK_WORDS
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement
from flightllm.storage.folder import Reader

_PASSING = CLOCK | CLOCK_WORDS | {"system"}
"""Words of queries whose plans contain values from the time of planning: the time, or rows of system tables."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The state that a plan depends on: tables, models, prompts, rights, settings and schemas."""

    tables: Mapping[TableName, Entry]
    objects: object
    rights: Rights
    settings: Settings
    place: tuple[str, ...] = ()
    """The schemas in which the session looks names up."""
    variables: tuple[str, ...] = ()
    """The names and values of the session's variables."""

    def same(self, other: "Circumstances") -> bool:
        """Return whether a plan made in this state is valid in the other.

        Each change makes new mappings of tables and objects, so comparing their identities is enough.
        """
        unchanged = self.tables is other.tables and self.objects is other.objects
        where = self.place == other.place and self.variables == other.variables
        return unchanged and where and self.rights == other.rights and self.settings == other.settings


@dataclass(slots=True)
class KeptPlan:
    """A planned query that runs at most once. Its reader keeps the files of its tables. Thread-safe."""

    statement: Statement
    circumstances: Circumstances
    _tables: tuple[Entry, ...]
    _kept: tuple[Query, Reader] | None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, now: Circumstances) -> tuple[Query, Reader] | None:
        """Return the query and its reader, or None if the query was taken or something changed.

        The caller must close the reader after the query.
        """
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is None:
            return None
        try:
            if self.circumstances.same(now):
                for entry in self._tables:
                    check_files(entry)
                return kept
        except FlightLLMError:
            pass  # planning the query again raises the error
        kept[1].close()
        return None

    def drop(self) -> None:
        """Discard the plan and close its reader. Idempotent."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()


def keep(
    query: Query, statement: Statement, services: Services, circumstances: Circumstances, reader: Reader
) -> KeptPlan | None:
    """Return a plan to keep, or None if the plan can go out of date although nothing changes."""
    if statement.kind != "query" or not is_lasting(query):
        return None
    tables = named_in(statement.mentions, circumstances.tables)
    system = services.catalog.store.system
    passing = _PASSING.union(system.schemas if system is not None else ())
    texts = [statement.whole, *(ParsedText(table.query) for table in tables if table.query)]
    if any(not passing.isdisjoint(text.names) for text in texts):
        return None
    return KeptPlan(statement, circumstances, tuple(tables), (query, reader))
