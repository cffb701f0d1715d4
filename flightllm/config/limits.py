"""What queries and kept answers may use."""

from dataclasses import dataclass, fields
from pathlib import Path

from flightllm.config.checks import at_least_one


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one query, one upload or the whole server may use.

    `memory_bytes` holds for each query's relational work by itself, not for all queries together; what an engine and
    the batches on their way take comes on top.
    """

    sql_bytes: int = 1_048_576
    sql_terms: int = 2_000
    concurrent_queries: int = 64
    upload_bytes: int = 1 << 30
    memory_bytes: int = 2 << 30
    spill_folder: Path | None = None
    batch_bytes: int = 2 << 20

    def __post_init__(self) -> None:
        at_least_one("limits", **{f.name: getattr(self, f.name) for f in fields(self) if f.type is int})


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Where answers are kept between queries; without `path`, `answers.sqlite` in the data folder."""

    enabled: bool = True
    path: Path | None = None
    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        at_least_one("cache", max_bytes=self.max_bytes)
