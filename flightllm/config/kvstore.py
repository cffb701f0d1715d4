"""Where the KV caches of engines are kept, and where others reach them."""

from dataclasses import dataclass
from pathlib import Path

from flightllm.config.checks import at_least_one, host_and_port


@dataclass(frozen=True, slots=True)
class KvStoreConfig:
    """A store of KV chunks beside the server, where `listen` is set; without `folder`, `kvstore` in the data folder.

    It has the certificate of `[server]`, and asks who calls as the server does.
    """

    listen: str | None = None
    folder: Path | None = None
    max_bytes: int = 10 << 30

    def __post_init__(self) -> None:
        if self.listen is not None:
            host_and_port("[kvstore] listen", self.listen)
        at_least_one("kvstore", max_bytes=self.max_bytes)
