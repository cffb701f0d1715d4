"""Bounds of the protocol layer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlightLimits:
    """What one client may take.

    `batch_bytes` bounds a record batch sent (grpc-js, tonic and Go receive at most 4 MiB by default); batches that are
    ready together are handed to gRPC up to `coalesce_bytes` at a time. `upload_bytes` bounds one DoPut.
    `concurrent_queries` streams run at once; another waits up to `queue_seconds`. A statement that nobody fetches is
    dropped after `statement_seconds`; a query whose client takes no rows for `stalled_seconds` is given up (0: never).
    """

    batch_bytes: int = 2 << 20
    coalesce_bytes: int = 4 << 20
    upload_bytes: int = 1 << 30
    concurrent_queries: int = 64
    queue_seconds: float = 60.0
    statements: int = 4096
    statement_seconds: float = 3600.0
    stalled_seconds: float = 600.0
    sessions: int = 4096
    poll_seconds: float = 0.1
