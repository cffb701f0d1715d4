"""The state of a server's clients, which another process of the same server can continue.

The state has sessions with their settings, prepared statements, statements that were fetched and can be fetched again,
and the sign-ins of the web page. It is a pickle: only processes of one server exchange it.
"""

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flightllm.common.principal import Principal
from flightllm.flight.backend import BackendDatabase, BackendSession
from flightllm.flight.core import Core
from flightllm.flight.sessions import SessionsState
from flightllm.flight.statements import FlightStatement, Prepared

_MOST_BYTES = 64 << 20
"""Beyond this size, values and rows that clients keep here are not moved."""


@dataclass(frozen=True, slots=True)
class _State:
    sessions: SessionsState
    prepared: Sequence[tuple[bytes, float, Prepared]]
    statements: Sequence[tuple[bytes, float, FlightStatement]]
    sign_ins: Sequence[tuple[bytes, float, tuple[str, str]]]
    option_kinds: Sequence[tuple[BackendSession, dict[str, str]]]


class _Writer(pickle.Pickler):
    """Writes the number of a session in place of the session."""

    def __init__(self, file: io.BytesIO, sessions: Sequence[BackendSession]) -> None:
        super().__init__(file)
        self._numbers = {id(session): number for number, session in enumerate(sessions)}

    def persistent_id(self, value: Any) -> int | None:
        """Return the number of a session; None stands for any other value."""
        return self._numbers.get(id(value))


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` wrote, with the sessions that continue those of the other process."""

    def __init__(self, file: io.BytesIO, sessions: Sequence[BackendSession]) -> None:
        super().__init__(file)
        self._sessions = sessions

    def persistent_load(self, number: Any) -> BackendSession:
        """Return the session with a number."""
        return self._sessions[int(number)]


def can_move(core: Core) -> bool:
    """Return whether another process can continue for all clients: nothing runs, waits, or is bound to this process."""
    core.kept.sweep()
    core.planned.sweep()
    if core.draining.is_set() or core.slots.running or core.slots.queued or core.database.queries.running():
        return False
    statements = [statement for _, _, statement in core.statements.entries()]
    size = core.bound.size + sum(one.returned.nbytes for one in statements if one.returned is not None)
    return size <= _MOST_BYTES and all(one.settle() for one in statements) and core.sessions.can_move


def state_of(core: Core) -> bytes:
    """Return the state of all clients, for `continue_from`; `can_move` was true, and no call came since."""
    statements = [entry for entry in core.statements.entries() if entry[2].can_move]
    state = _State(
        core.sessions.state(),
        core.prepared.entries(),
        statements,
        core.sign_ins.entries(),
        [(session, dict(kinds)) for session, kinds in core.option_kinds.items()],
    )
    kept = [entry.session for entry in state.sessions.entries.values()]
    kept += [statement.session for _, _, statement in state.prepared]
    kept += [statement.session for _, _, statement in state.statements]
    sessions = list({id(session): session for session in (*kept, *core.option_kinds)}.values())
    file = io.BytesIO()
    pickle.dump([(session.principal, session.state()) for session in sessions], file)
    _Writer(file, sessions).dump(state)
    return file.getvalue()


def continue_from(state: bytes, core: Core) -> None:
    """Continue for the clients of another process, from its `state_of`."""
    file = io.BytesIO(state)
    kept: list[tuple[Principal, object]] = pickle.load(file)  # noqa: S301 - a process of this server wrote it
    sessions = [_session(core.database, *one) for one in kept]
    found: _State = _Reader(file, sessions).load()
    core.sessions.restore(found.sessions)
    core.adrift = found.sessions.connected
    core.prepared.restore(found.prepared)
    for handle, _, prepared in found.prepared:
        if prepared.parameters is not None:
            core.bound.bind(handle, prepared, prepared.parameters)
    core.statements.restore(found.statements)
    core.sign_ins.restore(found.sign_ins)
    core.option_kinds.update(found.option_kinds)


def _session(database: BackendDatabase, principal: Principal, state: object) -> BackendSession:
    session = database.session(principal)
    if state is not None:  # a closed session, which a prepared statement still names
        session.restore(state)
    return session
