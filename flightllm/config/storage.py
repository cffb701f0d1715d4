"""Where tables outside the data folder are allowed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from flightllm.config.secrets import check_reference, read_secret
from flightllm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ObjectStoreConfig:
    """A bucket, or a path in a bucket, at an S3-compatible service.

    `url` is `s3://BUCKET` or `s3://BUCKET/PATH`; `endpoint` is the service's address, unset for AWS itself. The keys
    are `env:NAME` or `file:PATH`. Without them, AWS's own environment variables provide the keys that sign requests.
    """

    url: str
    region: str = "us-east-1"
    endpoint: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    allow_http: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError(
                "[storage.object_stores] url: expected s3://BUCKET or s3://BUCKET/PATH, without user, password and"
                " parameters"
            )
        for key in ("access_key_id", "secret_access_key"):
            check_reference(f"[storage.object_stores] {key}", getattr(self, key))
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ConfigError("[storage.object_stores] access_key_id and secret_access_key: set both or neither")
        if self.endpoint is not None and set(self.endpoint) & set("@?#"):
            raise ConfigError(
                "[storage.object_stores] endpoint: write the address without user, password and parameters; the keys"
                " belong into access_key_id and secret_access_key"
            )
        if self.endpoint is not None and self.endpoint.startswith("http://") and not self.allow_http:
            raise ConfigError(
                f"[storage.object_stores] endpoint: {self.endpoint} is not encrypted; write https://, or set allow_http"
            )

    @property
    def bucket(self) -> str:
        """Return the bucket's name."""
        return urlsplit(self.url).netloc

    def keys(self) -> tuple[str | None, str | None]:
        """Return the key's id and the secret key; None if they are not set here.

        Raises:
            ConfigError: the variable is not set, or the file cannot be read or is empty.
        """
        names = ("access_key_id", "secret_access_key")
        given = [(f"[storage.object_stores] {name}", getattr(self, name)) for name in names]
        found = [reference and read_secret(key, reference) for key, reference in given]
        return found[0], found[1]


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """The folders that administrators can make external tables from, and object stores with their names."""

    external_folders: tuple[Path, ...] = ()
    object_stores: Mapping[str, ObjectStoreConfig] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        buckets = [store.bucket for store in self.object_stores.values()]
        twice = [bucket for bucket in buckets if buckets.count(bucket) > 1]
        if twice:
            raise ConfigError(
                f"[storage.object_stores]: two sections name the bucket {twice[0]!r}; list it once, without a path"
            )
