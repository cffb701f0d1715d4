"""Object stores that the configuration lists, as DataFusion reads them."""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from datafusion import SessionContext
from datafusion.object_store import AmazonS3

from flightllm.config.storage import ObjectStoreConfig, StorageConfig


class ObjectStores:
    """All object stores of one server."""

    def __init__(self, config: StorageConfig) -> None:
        """Read the keys.

        Raises:
            ConfigError: what a key refers to is not there.
        """
        self._urls = tuple(store.url for store in config.object_stores.values())
        self._stores: Sequence[tuple[str, AmazonS3]] = [
            (store.bucket, _opened(store)) for store in config.object_stores.values()
        ]

    def register(self, context: SessionContext) -> SessionContext:
        """Let a context read the stores, and return it."""
        for bucket, store in self._stores:
            context.register_object_store("s3://", store, bucket)
        return context

    def has(self, address: str) -> bool:
        """Tell whether an address lies in one of the stores."""
        parts = urlsplit(address)
        if not address.isprintable() or parts.query or parts.fragment or ".." in unquote(parts.path).split("/"):
            return False
        return any(f"{address}/".startswith(f"{url.rstrip('/')}/") for url in self._urls)


def is_address(location: str) -> bool:
    """Tell whether a location is the address of an object, not a path."""
    return "://" in location and not location.startswith("file://")


def _opened(store: ObjectStoreConfig) -> AmazonS3:
    key, secret = store.keys()
    return AmazonS3(
        bucket_name=store.bucket,
        region=store.region,
        access_key_id=key,
        secret_access_key=secret,
        endpoint=store.endpoint,
        allow_http=store.allow_http,
    )
