"""Bounds of the protocol layer."""

from dataclasses import dataclass

from flightllm.config import LimitsConfig, RecoveryConfig


@dataclass(frozen=True, slots=True)
class FlightLimits:
    """What one client may take.

    `batch_bytes` bounds a record batch sent (grpc-js, tonic and Go receive at most 4 MiB by default); batches that are
    ready together are handed to gRPC up to `coalesce_bytes` at a time. `upload_bytes` bounds one DoPut, and all values
    bound to prepared statements together. `concurrent_queries` statements are worked on at once; of others up to
    `queued_queries` wait up to `queue_seconds`. Up to `statements` are kept prepared, and as many planned; one that
    nobody fetches is dropped after `unfetched_seconds`, its plan after `planned_seconds`; so are the `kept_plans`
    of statements that were prepared and not executed. A query whose client takes no
    rows, and an upload whose client sends none, for `stalled_seconds` is given up (0: never), or for `crowded_seconds`
    where somebody with fewer places waits for one. A session not used for `session_seconds` is closed; where there are
    `sessions`, a new one takes the place of one not used for `idle_seconds`, or of one of a user who has more of them.
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
        """Return those that the configuration gives."""
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
