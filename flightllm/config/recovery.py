"""What the server does when a part of it dies, or a client is silent."""

from dataclasses import dataclass, fields

from flightllm.config.checks import at_least_zero, one_of

ON_ENGINE_DOWN = ("wait", "fail")


@dataclass(frozen=True, slots=True)
class RecoveryConfig:
    """How long recovery takes at most, in seconds, and what happens meanwhile."""

    supervisor: bool = True
    """Serve from a process that a supervisor watches and replaces."""
    drain_seconds: int = 20
    """How long running queries may take to finish after SIGTERM; container runtimes kill after 30 s."""
    quarantine_seconds: int = 300
    """How long a statement is refused that was running when the server's process died; 0: never."""
    hung_seconds: int = 120
    """After how long a server process is killed and replaced in which nothing runs any more; 0: never."""
    on_engine_down: str = "wait"
    engine_wait_seconds: int = 300
    """How long a query waits for an engine that is being restarted."""
    stalled_seconds: int = 600
    """After how long a query is given up whose client is there but takes no rows; 0: never."""
    crowded_seconds: int = 30
    """The same where all places are taken and somebody with fewer of them waits for one; 0: never."""
    dead_peer_seconds: int = 60
    """After how long a connection is closed whose other end does not answer; 0: as the operating system does."""

    def __post_init__(self) -> None:
        one_of("[recovery] on_engine_down", self.on_engine_down, ON_ENGINE_DOWN)
        at_least_zero("recovery", **{f.name: getattr(self, f.name) for f in fields(self) if f.type is int})
