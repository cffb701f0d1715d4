"""Recovery of the server after one of its parts died or a client stalled."""

import math
from dataclasses import dataclass, fields

from flightllm.config.checks import at_least_zero, one_of
from flightllm.errors import ConfigError

ON_ENGINE_DOWN = ("wait", "fail")


@dataclass(frozen=True, slots=True)
class RecoveryConfig:
    """Time limits of recovery, in seconds, and what queries do meanwhile."""

    supervisor: bool = True
    """Run the server in a process that a supervisor watches and replaces."""
    drain_seconds: int = 20
    """How long running queries can continue after SIGTERM; container runtimes kill the process after 30 s."""
    quarantine_seconds: int = 300
    """How long a statement is refused that was running when the server's process died; 0: never."""
    hung_seconds: int = 120
    """After this long without progress, the server process is killed and replaced; 0: never."""
    on_engine_down: str = "wait"
    engine_wait_seconds: int = 300
    """How long a query waits for an engine that is being restarted."""
    stalled_seconds: int = 600
    """After this long, cancel a query whose client is connected but reads no rows; 0: never."""
    crowded_seconds: int = 30
    """The same limit while all places are taken and a user with fewer places waits for one; 0: never."""
    dead_peer_seconds: int = 60
    """After this long, close a connection whose other end does not answer; 0: the operating system's limit."""

    renew_growth: float = 1.5
    """Beyond this multiple of its memory when idle, a quiet server process is replaced by a new one; 0: never."""
    renew_bytes: int = 134_217_728
    """A server process that grew by fewer bytes than this is not replaced."""
    renew_quiet_seconds: int = 20
    """How long no call ran before the server process is replaced."""

    def __post_init__(self) -> None:
        if self.renew_growth != 0 and not 1 < self.renew_growth < math.inf:
            raise ConfigError(f"[recovery] renew_growth: {self.renew_growth} is not a number above 1, or 0 for never")
        one_of("[recovery] on_engine_down", self.on_engine_down, ON_ENGINE_DOWN)
        at_least_zero("recovery", **{f.name: getattr(self, f.name) for f in fields(self) if f.type is int})
