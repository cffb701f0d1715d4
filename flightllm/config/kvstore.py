"""Where engines' KV caches are stored, and the address at which other processes reach them."""

from dataclasses import dataclass
from pathlib import Path

from flightllm.config.checks import at_least_one, host_and_port


@dataclass(frozen=True, slots=True)
class KvStoreConfig:
    """A store of KV chunks beside the server, if `listen` is set; `folder` defaults to `kvstore` in the data folder.

    The store uses the certificate of `[server]`, and authenticates callers as the server does.
    """

    listen: str | None = None
    folder: Path | None = None
    max_bytes: int = 10 << 30
    eviction: str = "lru"

    def __post_init__(self) -> None:
        if self.listen is not None:
            host_and_port("[kvstore] listen", self.listen)
        at_least_one("kvstore", max_bytes=self.max_bytes)
