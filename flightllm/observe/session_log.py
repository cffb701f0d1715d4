"""The open sessions, served as the table `system.sessions`."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

import pyarrow as pa

from flightllm.common.principal import LOCAL

SESSIONS = pa.schema(
    [
        *((name, pa.string()) for name in ("session_id", "user", "peer")),
        *((name, pa.timestamp("us", tz="UTC")) for name in ("opened_at", "last_used_at")),
        ("statements", pa.int64()),
        ("settings", pa.string()),
    ]
)


class SessionFacts(NamedTuple):
    """The facts about a session that stay when another process continues it."""

    peer: str
    opened_at: datetime
    last_used_at: datetime
    statements: int


@dataclass(slots=True, weakref_slot=True)
class SessionRecord:
    """The facts about a session; `session_id` identifies it, but gives no access to it."""

    session_id: str
    user: str
    peer: str
    settings: Callable[[], Mapping[str, str]]
    """Returns the settings that the session changed."""
    opened_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_used_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    statements: int = 0
    _lock: Lock = field(default_factory=Lock)

    def used(self) -> None:
        """Count a statement."""
        with self._lock:
            self.statements += 1
            self.last_used_at = datetime.now(UTC)

    def facts(self) -> SessionFacts:
        """Return the facts for the process that continues the session."""
        with self._lock:
            return SessionFacts(self.peer, self.opened_at, self.last_used_at, self.statements)

    def restore(self, facts: SessionFacts) -> None:
        """Take the facts of a session that another process began."""
        with self._lock:
            self.peer, self.opened_at, self.last_used_at, self.statements = facts


class SessionLog:
    """The open sessions; a session is closed once no object holds its record. Safe to use from several threads."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"sessions": SESSIONS})

    def __init__(self) -> None:
        self._open: WeakValueDictionary[str, SessionRecord] = WeakValueDictionary()
        self._lock = Lock()

    def open(self, settings: Callable[[], Mapping[str, str]], user: str = LOCAL.name, peer: str = "") -> SessionRecord:
        """Open the record of a session with a new id; the caller must keep a reference to it."""
        record = SessionRecord(secrets.token_hex(8), user, peer, settings)
        with self._lock:
            self._open[record.session_id] = record
        return record

    def close(self, record: SessionRecord) -> None:
        """Forget a session. Idempotent."""
        with self._lock:
            self._open.pop(record.session_id, None)

    def records(self) -> list[SessionRecord]:
        """Return the open sessions, oldest first."""
        with self._lock:
            records = list(self._open.values())
        return sorted(records, key=lambda record: record.opened_at)

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows of `system.sessions`."""
        rows = [
            {
                **{name: getattr(record, name) for name in SESSIONS.names},
                "settings": json.dumps(dict(record.settings())),
            }
            for record in self.records()
        ]
        return pa.Table.from_pylist(rows, schema=SESSIONS)
