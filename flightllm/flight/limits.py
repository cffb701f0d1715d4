"""Bounds of the protocol layer."""

from dataclasses import dataclass

from flightllm.config import LimitsConfig, RecoveryConfig


@dataclass(frozen=True, slots=True)
class FlightLimits:
    """Limits on the resources that clients can take.

    - `batch_bytes`: the size of a record batch that is sent. (grpc-js, tonic and Go receive at most 4 MiB by default.)
    - `coalesce_bytes`: the size of the batches that gRPC gets at a time, if several batches are ready.
    - `upload_bytes`: the size of one DoPut, of all values bound to prepared statements together, and of the batches of
      all uploads that are in memory; users share these equally.
    - `concurrent_queries`: the statements that run at once.
    - `queued_queries`, `queue_seconds`: how many more statements wait for a place, and for how long.
    - `statements`: the prepared statements that are kept; as many planned statements are kept.
    - `unfetched_seconds`, `planned_seconds`: the age at which an unfetched statement and its plan are dropped.
    - `kept_plans`: the plans of statements that were prepared and not executed; they age by `planned_seconds` too.
    - `stalled_seconds`: a query whose client takes no rows, or an upload that sends no rows, is cancelled after this
      time (0: never).
    - `crowded_seconds`: the same time limit while a user with fewer places waits for a place.
    - `sessions`, `session_seconds`: the open sessions, and the idle time after which a session is closed.
    - `idle_seconds`: at `sessions` sessions, a new session replaces one that was idle for this long, or one of a user
      who has more sessions.
    """

    batch_bytes: int = 2 << 20
    coalesce_bytes: int = 4 << 20
    upload_bytes: int = 1 << 30
    concurrent_queries: int = 64
    queue_seconds: float = 60.0
    queued_queries: int = 1_024
    statements: int = 4096
    unfetched_seconds: float = 3600.0
    planned_seconds: float = 60.0
    kept_plans: int = 256
    stalled_seconds: float = 600.0
    crowded_seconds: float = 30.0
    sessions: int = 4096
    session_seconds: float = 86_400.0
    idle_seconds: float = 10.0
    poll_seconds: float = 0.1

    @classmethod
    def of(cls, limits: LimitsConfig, recovery: RecoveryConfig | None = None) -> "FlightLimits":
        """Return the limits that the configuration sets."""
        patience = recovery or RecoveryConfig()
        return cls(
            batch_bytes=limits.batch_bytes,
            upload_bytes=limits.upload_bytes,
            concurrent_queries=limits.concurrent_queries,
            queued_queries=limits.queued_queries,
            queue_seconds=limits.queue_seconds,
            sessions=limits.sessions,
            session_seconds=limits.session_seconds,
            stalled_seconds=patience.stalled_seconds,
            crowded_seconds=patience.crowded_seconds,
        )
