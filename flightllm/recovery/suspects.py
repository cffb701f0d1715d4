"""Which statements may have killed the server's process, and whose."""

import signal
from collections.abc import Callable, Iterable, Sequence

from flightllm.recovery.journal import Noted, Phase

_DEATHS = 3
"""So many make a user the cause of them: by chance anybody may be there at two."""
_STARTING_SECONDS = 10.0
"""A plan that is too deep kills while it is planned or right after, when DataFusion makes its operators."""


def suspects(noted: Sequence[Noted], harmless: Callable[[bytes], bool], killed_by: int | None) -> list[Noted]:
    """Return those of the statements in flight that are to be refused for a while, each text of a user once.

    What ended well before is let go. A crash is the doing of those being planned or just begun, if there are any; a
    SIGKILL, which is what comes when memory runs out, may be anyone's. `killed_by` is the signal, None if unknown.
    """
    unknown = _distinct(one for one in noted if not harmless(one.digest))
    early = [one for one in unknown if _is_early(one)]
    return unknown if killed_by == signal.SIGKILL or not early else early


def culprit(deaths: Sequence[Iterable[str]]) -> str | None:
    """Return the one user who had suspects at each of several deaths; None where there is none, or there are more."""
    users = set[str]().union(*deaths).intersection(*deaths)
    return users.pop() if len(deaths) >= _DEATHS and len(users) == 1 else None


def _is_early(noted: Noted) -> bool:
    return noted.phase is Phase.PLANNING or (noted.phase is Phase.STARTING and noted.seconds < _STARTING_SECONDS)


def _distinct(noted: Iterable[Noted]) -> list[Noted]:
    return list({(one.user, one.digest): one for one in noted}.values())
