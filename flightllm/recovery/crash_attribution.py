"""Finds the statements, and the user, that probably killed the server's process."""

import signal
from collections.abc import Callable, Iterable, Sequence

from flightllm.recovery.journal import Noted, Phase

_DEATHS = 3
"""A user with suspects at this many crashes is the cause; two can be a coincidence."""
_STARTING_SECONDS = 10.0
"""A plan that is too deep kills the process in planning, or soon after, when DataFusion makes its operators."""


def suspected_statements(
    noted: Sequence[Noted], harmless: Callable[[bytes], bool], killed_by: int | None
) -> list[Noted]:
    """Return the statements in flight to block for a while; each text of a user appears once.

    Statements that ended well before are innocent. After a crash only the statements that were in planning or just
    begun are suspects, if there are any. A SIGKILL usually means that memory ran out, which any statement can cause.
    `killed_by` is the signal, or None if unknown.
    """
    unknown = _distinct(one for one in noted if not harmless(one.digest))
    early = [one for one in unknown if _is_early(one)]
    return unknown if killed_by == signal.SIGKILL or not early else early


def culprit(deaths: Sequence[Iterable[str]]) -> str | None:
    """Return the one user with suspects at each of several crashes; None if no user or several users match."""
    users = set[str]().union(*deaths).intersection(*deaths)
    return users.pop() if len(deaths) >= _DEATHS and len(users) == 1 else None


def _is_early(noted: Noted) -> bool:
    return noted.phase is Phase.PLANNING or (noted.phase is Phase.STARTING and noted.seconds < _STARTING_SECONDS)


def _distinct(noted: Iterable[Noted]) -> list[Noted]:
    return list({(one.user, one.digest): one for one in noted}.values())
